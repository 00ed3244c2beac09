/** POST /api/v1/images/…: imageGenerate and imageEdit in the format of OpenAI's images API. */
import { z } from 'zod';
import { readClientUser } from '../../../domain/end-users.ts';
import type { JobRecord } from '../../../studio/jobs/job-reads.ts';
import { imageModels } from '../../../studio/models/image-models.ts';
import { findByAnyName } from '../../../studio/models/maker-names.ts';
import { imageEdit } from '../../../studio/capabilities/image-edit.ts';
import { imageGenerate } from '../../../studio/capabilities/image-generate.ts';
import { parseCapabilityFields } from '../studio-body.ts';
import { defineEndpoint, rawResponse } from '../endpoint.ts';
import { fileErrors, studioHeaders } from '../studio-results.ts';
import { describeFinishedJob, jobErrors, sendJson, startAwaitedJob } from './finished-job.ts';
import { imagesResponse, streamImagesJson } from './image-answers.ts';
import {
  imageFields,
  toCapabilityFields,
  createEditReader,
  type ImageRequest,
} from './image-requests.ts';
import { withRenamedFields } from './field-names.ts';

/** Endpoint POST /api/v1/images/generations. */
export const imagesGenerations = defineEndpoint({
  route: 'POST /api/v1/images/generations',
  scope: 'studio:image',
  allowsTokens: true,
  errorFormat: 'openai',
  summary: 'Generate images (OpenAI-compatible)',
  description:
    'Creates the same job as POST /api/v1/studio/image/generate. Fields that are not listed here are ignored.',
  request: {
    headers: studioHeaders,
    body: z.object(imageFields),
    example: { prompt: 'a lighthouse at dawn', model: 'gpt-image-2', size: '1024x1024' },
  },
  response: rawResponse,
  responses: { 200: describeFinishedJob('The images.', imagesResponse) },
  errors: jobErrors,
  async handle({ ctx, body }, services) {
    const model = findByAnyName(imageModels, body.model);
    const fields = await withRenamedFields(() => toCapabilityFields(body, model, model.generate));
    const job = await startAwaitedJob(
      ctx,
      {
        capability: imageGenerate,
        readBody: (_, capability) => ({
          ...parseCapabilityFields(capability, fields),
          endUserDefault: readClientUser(body.user),
        }),
      },
      services,
    );
    const format = body.response_format;
    const toJson = (done: JobRecord) => streamImagesJson(done, { format, services });
    return sendJson(ctx, job, { toJson, services });
  },
});

const binaryFile = z.string().meta({ format: 'binary' });

/** Endpoint POST /api/v1/images/edits, whose body is a form with images and a mask. */
export const imagesEdits = defineEndpoint({
  route: 'POST /api/v1/images/edits',
  scope: 'studio:image',
  allowsTokens: true,
  errorFormat: 'openai',
  summary: 'Edit images (OpenAI-compatible)',
  description:
    'Creates the same job as POST /api/v1/studio/image/edit. Fields that are not listed here are ignored.',
  request: {
    headers: studioHeaders,
    content: {
      'multipart/form-data': {
        schema: z.object({
          image: z.array(binaryFile).meta({
            description: '1–10 images of up to 25 MB each, in fields named `image` or `image[]`.',
          }),
          mask: binaryFile.optional().meta({
            description:
              'Picture with an alpha channel and the aspect ratio of the first image. Its transparent area is edited, whatever its colors.',
          }),
          ...imageFields,
        }),
      },
    },
  },
  response: rawResponse,
  responses: { 200: describeFinishedJob('The images.', imagesResponse) },
  errors: [...jobErrors, ...fileErrors],
  async handle({ ctx }, services) {
    let format: ImageRequest['response_format'];
    const readBody = createEditReader((fields) => {
      format = fields.response_format;
    });
    const job = await startAwaitedJob(ctx, { capability: imageEdit, readBody }, services);
    const toJson = (done: JobRecord) => streamImagesJson(done, { format, services });
    return sendJson(ctx, job, { toJson, services });
  },
});
