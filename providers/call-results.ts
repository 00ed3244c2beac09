/** A provider's result → stored outputs of a call, held against its plan before they are charged. */
import type { CallTask } from '../jobs/job-plan.ts';
import type { CallOutputs, OutputSpec, StoredArtifact } from '../jobs/job-plan.ts';
import type { Logger } from '../platform/logger.ts';
import { ProviderFailure } from '../domain/provider-failure.ts';
import type { ProviderResult } from './provider.ts';
import type { ArtifactStore } from '../storage/artifacts.ts';

/** How to store one call's result. */
export interface StoreResultOptions {
  artifacts: ArtifactStore;
  task: CallTask;
  signal: AbortSignal;
  logger: Logger;
}

/**
 * Stores what was delivered, at most what was asked for. Unusable outputs are left out and not paid
 * for; what may work on another attempt fails the attempt as a whole.
 * @throws ProviderFailure, StorageFailure
 */
export async function storeResult(
  result: ProviderResult,
  options: StoreResultOptions,
): Promise<CallOutputs> {
  const { task } = options;
  const wanted = task.meter === 'artifact' ? task.quantity : 1;
  const stored = await Promise.allSettled(
    result.outputs.slice(0, wanted).map((output, outputIndex) =>
      options.artifacts.store(output, {
        output: task.output,
        place: {
          organizationId: task.organizationId,
          jobId: task.jobId,
          callIndex: task.callIndex,
          outputIndex,
        },
        signal: options.signal,
      }),
    ),
  );
  const artifacts = kept(stored);
  const delivered = deliveredUnits(task, artifacts, result);
  const discountMicro = discountOf(task, artifacts, delivered);
  tellDifferences(artifacts, options);
  const short = task.output.medium !== 'json' && artifacts.length < wanted;
  return {
    callIndex: task.callIndex,
    artifacts,
    data: result.data,
    delivered,
    ...(discountMicro > 0 && { discountMicro }),
    error: short
      ? { code: 'PROVIDER_ERROR', message: 'the provider delivered fewer outputs than requested' }
      : null,
  };
}

/** Seconds that an encoder's padding may add: nobody pays for a second begun by it. */
const paddingSeconds = 0.1;

/** What of the call's quantity is charged. */
function deliveredUnits(
  task: CallTask,
  artifacts: readonly StoredArtifact[],
  result: ProviderResult,
): number {
  const isData = task.output.medium === 'json';
  if (artifacts.length === 0 && !isData) return 0;
  if (task.meter === 'second') {
    const seconds = result.seconds ?? artifacts[0]?.durationSeconds ?? task.quantity;
    return Math.min(task.quantity, Math.max(1, Math.ceil(seconds - paddingSeconds)));
  }
  return task.meter === 'character' || isData ? task.quantity : artifacts.length;
}

/** Micro-credits: what came is charged, not what was asked for. */
function discountOf(
  task: CallTask,
  artifacts: readonly StoredArtifact[],
  delivered: number,
): number {
  const units = task.meter === 'artifact' ? 1 : delivered;
  return artifacts.reduce((sum, one) => sum + unitDiscountMicro(task.output, one) * units, 0);
}

function tellDifferences(artifacts: readonly StoredArtifact[], options: StoreResultOptions): void {
  const { task, logger } = options;
  for (const artifact of artifacts) {
    const differences = differencesOf(task.output, artifact);
    if (differences.length === 0) continue;
    const { jobId, callIndex, route } = task;
    const { provider, operation } = route;
    logger.warn({ jobId, callIndex, provider, operation, differences }, 'call.output_differs');
  }
}

function kept(stored: PromiseSettledResult<StoredArtifact>[]): StoredArtifact[] {
  const artifacts: StoredArtifact[] = [];
  const failures: unknown[] = [];
  for (const entry of stored) {
    if (entry.status === 'fulfilled') artifacts.push(entry.value);
    else failures.push(entry.reason);
  }
  const hopeless = failures.every(
    (failure) => failure instanceof ProviderFailure && failure.kind === 'failed',
  );
  if (failures.length > 0 && (!hopeless || artifacts.length === 0)) throw failures[0];
  return artifacts;
}

/** What an output is not as the plan expects it. */
interface OutputDifference {
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
