/** Checks an image request against what its model takes, before anything is reserved. */
import type { ImageModel, ImageParameters } from '../catalog/image-model.ts';
import { GatewayError, type ErrorDetail } from '../domain/errors.ts';

type Fields = Readonly<Record<string, unknown>>;
/** Request field → the entry of the model's parameter table that allows it. */
const allowedBy = {
  aspectRatio: 'aspectRatio',
  outputFormat: 'outputFormat',
  resolution: 'resolution',
  width: 'size',
  height: 'size',
  imageSize: 'imageSize',
  seed: 'seed',
  negativePrompt: 'negativePrompt',
  quality: 'quality',
  background: 'background',
  imageUrls: 'imageUrls',
} as const satisfies Record<string, keyof ImageParameters>;

/**
 * Refuses parameters of other models and values this model does not take (design §7).
 * @throws GatewayError UNSUPPORTED_PARAMETER or INVALID_REQUEST or CONFLICTING_FIELDS, naming the fields.
 */
export function refuseUnsupported(model: ImageModel, body: Fields): void {
  const taken = takenBy(model);
  const foreign = Object.keys(allowedBy).filter(
    (field) => body[field] !== undefined && !taken.includes(field),
  );
  if (foreign.length > 0) {
    throw new GatewayError(
      'UNSUPPORTED_PARAMETER',
      `${model.id} does not take ${foreign.join(', ')}`,
      {
        details: foreign.map((path) => ({
          path,
          message: `not taken by ${model.id}, which takes: ${taken.join(', ')}`,
        })),
      },
    );
  }
  const details = [...wrongWords(model, body), ...wrongNumbers(model, body)];
  if (details.length > 0) {
    throw new GatewayError('INVALID_REQUEST', `${model.id} does not take this value`, { details });
  }
  refuseConflicts(body);
}

function takenBy(model: ImageModel): string[] {
  return Object.entries(allowedBy)
    .filter(([, parameter]) => model.parameters[parameter] !== undefined)
    .map(([field]) => field);
}

function wrongWords(model: ImageModel, body: Fields): ErrorDetail[] {
  return (['aspectRatio', 'outputFormat', 'resolution', 'quality', 'background'] as const)
    .filter((field) => body[field] !== undefined)
    .filter((field) => !model.parameters[field]?.includes(String(body[field])))
    .map((field) => ({
      path: field,
      message: `${model.id} takes one of: ${model.parameters[field]?.join(', ')}`,
    }));
}

function wrongNumbers(model: ImageModel, body: Fields): ErrorDetail[] {
  const details: ErrorDetail[] = [];
  const { numImages, imageUrls } = model.parameters;
  if (typeof body['numImages'] === 'number' && body['numImages'] > numImages.max) {
    details.push({ path: 'numImages', message: `${model.id} takes 1–${numImages.max}` });
  }
  if (Array.isArray(body['imageUrls']) && imageUrls && body['imageUrls'].length > imageUrls.max) {
    details.push({ path: 'imageUrls', message: `${model.id} takes 1–${imageUrls.max}` });
  }
  const bounds = model.parameters.imageSize;
  if (bounds && wrongCustomSize(bounds, body['imageSize'])) {
    const { edgeMaxPixels, areaMinPixels, areaMaxPixels, ratioMax } = bounds;
    details.push({
      path: 'imageSize',
      message:
        `${model.id} takes sides of at most ${edgeMaxPixels} and ${areaMinPixels}–${areaMaxPixels} ` +
        `pixels in all, no longer than ${ratioMax}:1`,
    });
  }
  return details;
}

type SizeBounds = NonNullable<ImageParameters['imageSize']>;

function wrongCustomSize(bounds: SizeBounds, size: unknown): boolean {
  if (typeof size !== 'object' || size === null) return false;
  const { width, height } = { width: 0, height: 0, ...size };
  const area = width * height;
  return (
    Math.max(width, height) > bounds.edgeMaxPixels ||
    area < bounds.areaMinPixels ||
    area > bounds.areaMaxPixels ||
    Math.max(width, height) > bounds.ratioMax * Math.min(width, height)
  );
}

/** A transparent background needs a format that can hold one. */
function refuseConflicts(body: Fields): void {
  if (body['background'] === 'transparent' && body['outputFormat'] === 'jpeg') {
    throw new GatewayError('CONFLICTING_FIELDS', 'JPEG cannot hold a transparent background', {
      details: [
        { path: 'background', message: 'transparent needs outputFormat png or webp' },
        { path: 'outputFormat', message: 'png or webp with a transparent background' },
      ],
    });
  }
}
