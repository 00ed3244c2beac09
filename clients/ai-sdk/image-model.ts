/** Image model: `generateImage` of the AI SDK. */
import type { ImageModelV4, ImageModelV4CallOptions } from '@ai-sdk/provider';
import type { Input } from 'studio-gateway-client';
import { describeJob, downloadFile, runJob, toUrl, type Studio } from './jobs.ts';

/** Id of an image model. */
export type ImageModelId = NonNullable<Input<'image/generate'>['model']> | (string & {});

/** Creates an image model. With input pictures, it edits them. */
export function createImageModel(studio: Studio, modelId: ImageModelId): ImageModelV4 {
  return {
    specificationVersion: 'v4',
    provider: 'studio.image',
    modelId,
    maxImagesPerCall: 10,
    supportsFileInputs: true,
    supportsMaskInputs: true,
    async doGenerate(options) {
      const { body, warnings } = await buildBody(studio, modelId, options);
      const capability = options.files?.length ? 'image/edit' : 'image/generate';
      const job = await runJob(studio, { capability, body }, options);
      const { images } = job.result;
      const { jobId, credits } = describeJob(job);
      // The SDK keeps the metadata of each image, and those of the job only for the call.
      const share = { jobId, credits: credits / images.length };
      return {
        images: await Promise.all(images.map(({ url }) => downloadFile(studio, url, options))),
        warnings,
        providerMetadata: {
          studio: { jobId, credits, images: images.map((image) => ({ ...share, ...image })) },
        },
        response: { timestamp: new Date(), modelId, headers: undefined },
      };
    },
  };
}

async function buildBody(studio: Studio, modelId: string, options: ImageModelV4CallOptions) {
  const { prompt, n, size, aspectRatio, seed, files = [], mask, providerOptions } = options;
  const capability = files.length > 0 ? 'image/edit' : 'image/generate';
  const [width, height] = size?.split('x').map(Number) ?? [];
  const { fields, warnings } = await studio.models.takeSettings(
    { capability, modelId, modelType: 'imageModel' },
    {
      size: { value: size && { width, height }, field: 'imageSize' },
      aspectRatio: { value: aspectRatio, field: 'aspectRatio' },
      seed: { value: seed, field: 'seed' },
      mask: { value: mask && (await toUrl(studio, mask)), field: 'maskUrl' },
    },
  );
  const imageUrls = await Promise.all(files.map((file) => toUrl(studio, file)));
  const body = {
    prompt,
    model: modelId,
    ...(n > 1 && { numImages: n }),
    ...(imageUrls.length > 0 && { imageUrls }),
    ...fields,
    ...providerOptions['studio'],
  };
  return { body, warnings };
}
