/**
 * Stores a provider's result as the outputs of a call, compared with the plan before the charge.
 */
import type { CallTask } from '../jobs/job-plan.ts';
import type { CallOutputs, OutputSpec, StoredArtifact } from '../jobs/job-plan.ts';
import type { Logger } from '../platform/logger.ts';
import { ProviderFailure } from '../domain/provider-failure.ts';
import type { ProviderResult } from './provider.ts';
import type { ArtifactStore } from '../storage/artifacts.ts';

/** Options of the storage of a call's result. */
export interface StoreResultOptions {
  artifacts: ArtifactStore;
  task: CallTask;
  signal: AbortSignal;
  logger: Logger;
}

/**
 * Stores the delivered outputs, at most as many as requested. Unusable outputs are left out and not
 * charged; a failure that another attempt may avoid fails the whole attempt.
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

/**
 * Seconds that an encoder's padding may add: a second that contains only padding is not charged.
 */
const paddingSeconds = 0.1;

/** Returns the units of the call to charge. */
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

/** Returns the discount in micro-credits for outputs that are cheaper than the requested ones. */
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

/** Difference between an output and the plan. */
interface OutputDifference {
  field: 'contentType' | 'width' | 'height' | 'durationSeconds' | 'hasAudio';
  expected: string | number | boolean;
  found: string | number | boolean | null;
}

/** Content types of media that are stored as delivered; images are converted. */
const contentTypes: Partial<Record<OutputSpec['medium'], string>> = {
  video: 'video/mp4',
  audio: 'audio/mpeg',
};
/** Tolerances: encoders round durations to frames, and dimensions to even numbers. */
const secondsAbout = 0.5;
const pixelsAbout = 2;

/**
 * Lists the differences from the expected properties; properties that neither the request nor the
 * medium decides are not compared.
 */
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

/** Returns the micro-credits by which a unit of this output is cheaper than the requested one. */
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
