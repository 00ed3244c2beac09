/**
 * What makers call the models behind our ids. Taken where clients of a maker's own API are served: only
 * names of the model that answers, or of the one that its maker has put in that model's place.
 */
import { GatewayError } from '../domain/errors.ts';
import { createNearest } from '../domain/request-words.ts';

/** Maker's name → our id. */
export const vendorNames: Readonly<Record<string, string>> = {
  // GPT Image 1 was shut down; its maker names 1.5 as the replacement.
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
 * The row that a client names, by its id or its maker's name; the first where it names none.
 * @throws GatewayError UNKNOWN_MODEL naming the nearest, or all, that exist here
 */
export function findByAnyName<Row extends { id: string }>(
  rows: readonly Row[],
  name: string | null | undefined,
): Row {
  const id = name != null && Object.hasOwn(vendorNames, name) ? vendorNames[name] : name;
  const found = id == null ? rows[0] : rows.find((row) => row.id === id);
  if (found) return found;
  const ids = rows.map((row) => row.id);
  const makers = Object.entries(vendorNames).filter(([, own]) => ids.includes(own));
  const near = createNearest([...ids, ...makers.map(([maker]) => maker)])(name ?? '');
  const advice = (near.length > 0 ? near : ids).join(', ');
  const shown = name?.slice(0, 100);
  throw new GatewayError(
    'UNKNOWN_MODEL',
    `model "${shown}" does not exist here; did you mean ${advice}?`,
    { details: [{ path: 'model', message: `one of: ${ids.join(', ')}` }] },
  );
}
