/**
 * Maps the names that makers give their models to public ids. Endpoints that are compatible with a
 * maker's own API accept these names. A name is listed only if its public id serves that model or
 * the model that the maker named as its replacement.
 */
import { GatewayError } from '../../domain/errors.ts';
import { createSuggester } from '../../domain/field-messages.ts';
import { imageModels } from './image-models.ts';
import { videoModels } from './video-models.ts';

/** Public model ids, keyed by the maker's name for the model. */
export const publicIdsByMakerName: Readonly<Record<string, string>> = {
  // GPT Image 1 was shut down; OpenAI names GPT Image 1.5 as its replacement.
  'gpt-image-1': 'alpha-image',
  'gpt-image-1.5': 'alpha-image',
  'gpt-image-1-mini': 'alpha-image-mini',
  'gpt-image-2': 'alpha-image-2',
  'gpt-image-2.5-flare': 'alpha-image-2.5-flare',
  'gpt-image-2.5-sunburst': 'alpha-image-2.5-sunburst',
  'gemini-2.5-flash-image': 'nano-banana',
  'gemini-3-pro-image': 'nano-banana-pro',
  'gemini-3-pro-image-preview': 'nano-banana-pro',
  'veo-3.1': 'veo',
  'veo-3.1-generate-preview': 'veo',
};

/**
 * Returns the row whose public id or maker's name is `name`. Returns the first row if `name` is
 * null or undefined.
 * @throws GatewayError UNKNOWN_MODEL with the most similar names, or with all ids if none is
 * similar
 */
export function findByAnyName<Row extends { id: string }>(
  rows: readonly Row[],
  name: string | null | undefined,
): Row {
  const id =
    name != null && Object.hasOwn(publicIdsByMakerName, name) ? publicIdsByMakerName[name] : name;
  const model = id == null ? rows[0] : rows.find((row) => row.id === id);
  if (model) return model;
  const ids = rows.map((row) => row.id);
  const makerNames = Object.entries(publicIdsByMakerName)
    .filter(([, publicId]) => ids.includes(publicId))
    .map(([makerName]) => makerName);
  const similarNames = createSuggester([...ids, ...makerNames])(name ?? '');
  const advice = (similarNames.length > 0 ? similarNames : ids).join(', ');
  const shownName = name?.slice(0, 100);
  throw new GatewayError(
    'UNKNOWN_MODEL',
    `model "${shownName}" does not exist; did you mean ${advice}?`,
    { details: [{ path: 'model', message: `must be one of ${ids.join(', ')}` }] },
  );
}

/** Returns the endpoint of the image or video model with this name; null if there is none. */
export function findStudioEndpoint(name: string): string | null {
  const id = Object.hasOwn(publicIdsByMakerName, name) ? publicIdsByMakerName[name] : name;
  const hasId = (rows: readonly { id: string }[]): boolean => rows.some((row) => row.id === id);
  if (hasId(imageModels)) return 'POST /api/v1/studio/image/generate';
  return hasId(videoModels) ? 'POST /api/v1/studio/video/generate' : null;
}
