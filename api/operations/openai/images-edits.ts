/** POST /api/v1/images/edits: imageEdit, as OpenAI's clients ask for it: a form with pictures and a mask. */
import { z } from 'zod';
import type { KeptPicture } from '../../../activities/inputs/pictures.ts';
import { fileBytesMax } from '../../../activities/storage/media-types.ts';
import { editModels } from '../../../catalog/image-models.ts';
import { findByAnyName } from '../../../catalog/vendor-names.ts';
import { imageEdit } from '../../../studio/image-edit.ts';
import { parseWith } from '../../middleware/body.ts';
import { bodySchema } from '../../middleware/body-schema.ts';
import { receiveForm } from '../../middleware/multipart.ts';
import type { ReadRequestOf } from '../../studio/request-draft.ts';
import { defineOperation, ownAnswer } from '../operation.ts';
import { fileErrors, studioHeaders } from '../studio.ts';
import { finishedAnswer, finishedJob, jobErrors, requestOf } from './finished-job.ts';
import { answerImages, imagesAnswer } from './image-answer.ts';
import { imageFields, ownImageFields, type ImageAsked } from './image-request.ts';

/** Ten pictures and a mask. */
const filesMax = 11;
const textBytesMax = 32 * 1024;
const file = z.string().meta({ format: 'binary' });
const form = bodySchema(z.object(imageFields));

/** Keeps the pictures; a repeat is the same request when they are the same bytes. */
function readEdit(asked: (fields: ImageAsked) => void): ReadRequestOf {
  return async (ctx, capability, { pictures, onKeeping }) => {
    const { texts, files } = await receiveForm(ctx, {
      fields: ['image', 'mask'],
      filesMax,
      textBytesMax,
      bytesMax: fileBytesMax.image,
      keep(stream, field) {
        const keeping = pictures.keep({ field, stream }, ctx.state.caller);
        onKeeping(keeping);
        return keeping;
      },
    });
    const fields = parseWith(form, texts);
    asked(fields);
    const model = findByAnyName(editModels, fields.model);
    const kept = (name: string): KeptPicture[] =>
      files.filter(({ field }) => field === name).map((each) => each.kept);
    const [mask] = kept('mask');
    const named = (nameOf: (picture: KeptPicture) => string) => ({
      ...ownImageFields(fields, model, model.edit ?? {}),
      imageUrls: kept('image').map(nameOf),
      ...(mask && { maskUrl: nameOf(mask) }),
    });
    const sameAs = named(({ sha256 }) => sha256);
    return {
      ...requestOf(
        capability,
        named(({ fileId }) => fileId),
      ),
      sameAs,
    };
  };
}

/** See the file's head. */
export const imagesEdits = defineOperation({
  route: 'POST /api/v1/images/edits',
  scope: 'studio:image',
  errorShape: 'openai',
  summary: 'Edit images (OpenAI-compatible)',
  description: 'The same job as POST /api/v1/studio/image/edit. Fields not named here are dropped.',
  request: {
    headers: studioHeaders,
    content: {
      'multipart/form-data': {
        schema: z.object({
          image: z.array(file).meta({ description: '1–10, as `image` or `image[]`, 25 MB each.' }),
          mask: file.optional(),
          ...imageFields,
        }),
      },
    },
  },
  answer: ownAnswer,
  answers: { 200: finishedAnswer('The pictures.', imagesAnswer) },
  errors: [...jobErrors, ...fileErrors],
  async handle({ ctx }, services) {
    let format: ImageAsked['response_format'];
    const read = readEdit((fields) => {
      format = fields.response_format;
    });
    const job = await finishedJob(ctx, { capability: imageEdit, read }, services);
    return answerImages(ctx, { job, format }, services);
  },
});
