/** Holds the outputs of a call against its plan before they are charged: pure comparisons. */
import type { OutputSpec, StoredArtifact } from '../../jobs/job-plan.ts';

/** What an output is not as the plan expects it. */
export interface OutputDifference {
  field: 'contentType' | 'width' | 'height' | 'durationSeconds' | 'hasAudio';
  expected: string | number | boolean;
  found: string | number | boolean | null;
}

/** What callers are promised of the media that are kept as they come; a picture's format is converted. */
const contentTypes: Partial<Record<OutputSpec['medium'], string>> = {
  video: 'video/mp4',
  audio: 'audio/mpeg',
};
/** Encoders round lengths to frames, and edges to even numbers. */
const secondsAbout = 0.5;
const pixelsAbout = 2;

/** Everything that is not as expected; what neither the request nor the medium decides is not looked at. */
export function differencesOf(output: OutputSpec, artifact: StoredArtifact): OutputDifference[] {
  const expected = { contentType: contentTypes[output.medium], ...output.expected };
  const about = { width: pixelsAbout, height: pixelsAbout, durationSeconds: secondsAbout };
  const differences: OutputDifference[] = [];
  for (const field of ['contentType', 'hasAudio'] as const) {
    const wanted = expected[field];
    const found = artifact[field];
    if (wanted !== undefined && found !== wanted)
      differences.push({ field, expected: wanted, found });
  }
  for (const field of ['width', 'height', 'durationSeconds'] as const) {
    const wanted = expected[field];
    const found = artifact[field];
    const differs = found === null || Math.abs(found - (wanted ?? found)) > about[field];
    if (wanted !== undefined && differs) differences.push({ field, expected: wanted, found });
  }
  return differences;
}

/** Micro-credits by which a unit of this output is cheaper than the one that was asked for. */
export function unitDiscountMicro(output: OutputSpec, artifact: StoredArtifact): number {
  const { width, height, hasAudio } = artifact;
  const pixels = width === null || height === null ? null : width * height;
  const fitting = (output.variants ?? []).filter(
    (variant) =>
      (variant.hasAudio === undefined || hasAudio === variant.hasAudio) &&
      (variant.pixelsBelow === undefined || (pixels !== null && pixels < variant.pixelsBelow)),
  );
  return Math.max(0, ...fitting.map((variant) => variant.unitDiscountMicro));
}
