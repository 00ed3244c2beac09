/** POST /api/v1/images/generations: imageGenerate, as OpenAI's clients ask for it. */
import { z } from 'zod';
import { imageModels } from '../../../catalog/image-models.ts';
import { findByAnyName } from '../../../catalog/vendor-names.ts';
import { imageGenerate } from '../../../studio/image-generate.ts';
import { bodySchema } from '../../middleware/body-schema.ts';
import { defineOperation, ownAnswer } from '../operation.ts';
import { studioHeaders } from '../studio.ts';
import { finishedAnswer, finishedJob, jobErrors, requestOf } from './finished-job.ts';
import { answerImages, imagesAnswer } from './image-answer.ts';
import { imageFields, ownImageFields } from './image-request.ts';
import { inTheirWords } from './their-words.ts';

/** See the file's head. */
export const imagesGenerations = defineOperation({
  route: 'POST /api/v1/images/generations',
  scope: 'studio:image',
  errorShape: 'openai',
  summary: 'Generate images (OpenAI-compatible)',
  description:
    'The same job as POST /api/v1/studio/image/generate. Fields not named here are dropped.',
  request: {
    headers: studioHeaders,
    body: bodySchema(z.object(imageFields)),
    example: { prompt: 'a lighthouse at dawn', model: 'gpt-image-2', size: '1024x1024' },
  },
  answer: ownAnswer,
  answers: { 200: finishedAnswer('The pictures.', imagesAnswer) },
  errors: jobErrors,
  async handle({ ctx, body }, services) {
    const model = findByAnyName(imageModels, body.model);
    const fields = await inTheirWords(() => ownImageFields(body, model, model.generate));
    const job = await finishedJob(
      ctx,
      { capability: imageGenerate, read: (_, capability) => requestOf(capability, fields) },
      services,
    );
    return answerImages(ctx, { job, format: body.response_format }, services);
  },
});
