/** Measures stored pictures and videos before a provider receives them. */
import type { InputMeasurements } from '../../domain/draft-plan.ts';
import { createObjectSource, type ByteSource } from '../byte-source.ts';
import { readAccepted, UnusableFile, type MediaUse } from '../media-types.ts';
import type { Storage } from '../storage.ts';

/** Uses of inputs by the medium that their field accepts. */
export const inputUses = {
  image: 'picture',
  video: 'film',
  audio: 'recording',
} as const satisfies Record<string, MediaUse>;

/** Measures a stored picture or video. @throws UnusableFile */
export const measureInput = (
  storage: Storage,
  storageKey: string,
  medium: 'image' | 'video',
): Promise<InputMeasurements> => measureSource(createObjectSource(storage, storageKey), medium);

/** Measures a picture or video, and closes the source. @throws UnusableFile */
export async function measureSource(
  source: ByteSource,
  medium: 'image' | 'video',
): Promise<InputMeasurements> {
  const facts = await readAccepted(source, inputUses[medium]);
  if (facts.kind === 'picture') {
    return { width: facts.width, height: facts.height, durationSeconds: null };
  }
  if (!facts.video) throw new UnusableFile('has no picture track');
  return facts.video;
}
