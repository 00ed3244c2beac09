/**
 * Stores the outputs of provider calls, and compares them with the plan before they are charged.
 */
import type { CallInput, CallOutputs, OutputSpec, StoredArtifact } from '../domain/job-plan.ts';
import type { Logger } from '../platform/logger.ts';
import { ProviderFailure } from '../domain/provider-failure.ts';
import type { ProviderResult } from './provider.ts';
import type { ArtifactStore } from '../storage/artifacts.ts';

/** Options of `storeResult`: the call whose result is stored, and services. */
export interface StoreResultOptions {
  artifacts: ArtifactStore;
  task: CallInput;
  signal: AbortSignal;
  logger: Logger;
}

/**
 * Stores the delivered outputs of a call, at most the requested number. Unusable outputs are
 * omitted and not charged.
 * @throws ProviderFailure or StorageFailure if no output can be stored, or if an output fails with
 * an error that another attempt may resolve
 */
export async function storeResult(
  result: ProviderResult,
  options: StoreResultOptions,
): Promise<CallOutputs> {
  const { task } = options;
  const requestedCount = task.meter === 'artifact' ? task.quantity : 1;
  const storeResults = await Promise.allSettled(
    result.outputs.slice(0, requestedCount).map((output, outputIndex) =>
      options.artifacts.store(output, {
        output: task.output,
        place: {
          organizationId: task.organizationId,
          jobId: task.jobId,
          callIndex: task.callIndex,
          outputIndex,
        },
        mark: {
          model: task.output.model ?? task.model ?? null,
          hasCallerMedia: task.output.hasCallerMedia ?? false,
        },
        signal: options.signal,
      }),
    ),
  );
  const artifacts = listArtifacts(storeResults);
  const deliveredUnits = countDeliveredUnits(task, artifacts, result);
  const [discountMicro, costDiscountMicro] = calculateDiscounts(task, artifacts, deliveredUnits);
  logDifferences(artifacts, options);
  logReportedSeconds(result, options);
  const isIncomplete = task.output.medium !== 'json' && artifacts.length < requestedCount;
  return {
    callIndex: task.callIndex,
    artifacts,
    data: result.data,
    delivered: deliveredUnits,
    ...(discountMicro > 0 && { discountMicro }),
    ...(costDiscountMicro !== discountMicro && { costDiscountMicro }),
    error: isIncomplete
      ? { code: 'PROVIDER_ERROR', message: 'the provider delivered fewer outputs than requested' }
      : null,
  };
}

/** Seconds that an encoder may add to a recording as padding, which is not charged. */
const paddingSeconds = 0.1;

/** Calculates the number of charged units of a call (`Meter`). */
function countDeliveredUnits(
  task: CallInput,
  artifacts: readonly StoredArtifact[],
  result: ProviderResult,
): number {
  const isData = task.output.medium === 'json';
  if (artifacts.length === 0 && !isData) return 0;
  if (task.meter === 'second') {
    const seconds = result.seconds ?? artifacts[0]?.durationSeconds ?? task.quantity;
    const secondsMax = task.quantityMax ?? task.quantity;
    return Math.min(secondsMax, Math.max(1, Math.ceil(seconds - paddingSeconds)));
  }
  return task.meter === 'character' || isData ? task.quantity : artifacts.length;
}

/**
 * Calculates the discounts of a call on its price and on that of the catalog, in micro-credits. They are
 * 0 if no delivered output is cheaper than the requested output.
 */
function calculateDiscounts(
  task: CallInput,
  artifacts: readonly StoredArtifact[],
  deliveredUnits: number,
): [price: number, cost: number] {
  const units = task.meter === 'artifact' ? 1 : deliveredUnits;
  const discounts = artifacts.map((artifact) => findUnitDiscounts(task.output, artifact));
  return [
    discounts.reduce((sum, { price }) => sum + price * units, 0),
    discounts.reduce((sum, { cost }) => sum + cost * units, 0),
  ];
}

function logDifferences(artifacts: readonly StoredArtifact[], options: StoreResultOptions): void {
  const { task, logger } = options;
  for (const artifact of artifacts) {
    const differences = findDifferences(task.output, artifact);
    if (differences.length === 0) continue;
    const { jobId, callIndex, route } = task;
    const { provider, providerEndpoint } = route;
    logger.warn(
      { jobId, callIndex, provider, providerEndpoint, differences },
      'call.output_differs',
    );
  }
}

/**
 * Logs a report of more seconds than were measured. One of more than the file can hold is an error
 * of the provider, of which only what the file can hold is charged.
 */
function logReportedSeconds(
  { seconds }: ProviderResult,
  { task, logger }: StoreResultOptions,
): void {
  const { jobId, callIndex, quantity, quantityMax = quantity, route } = task;
  if (seconds === undefined || seconds - paddingSeconds <= quantity) return;
  const { provider, providerEndpoint } = route;
  const differences = [{ field: 'seconds', expected: quantity, found: seconds }];
  const report = { jobId, callIndex, provider, providerEndpoint, differences };
  if (seconds - paddingSeconds > quantityMax) {
    logger.error({ ...report, charged: quantityMax }, 'call.report_rejected');
  } else logger.warn(report, 'call.output_differs');
}

/** Returns whether a failure means an unusable output, so that a retry would fail too. */
const isUnusable = (failure: unknown): boolean =>
  failure instanceof ProviderFailure && failure.kind === 'failed';

/**
 * Returns the stored artifacts.
 * @throws the first failure that another attempt may resolve. If there is none and no artifact was
 * stored, the first failure
 */
function listArtifacts(results: PromiseSettledResult<StoredArtifact>[]): StoredArtifact[] {
  const artifacts: StoredArtifact[] = [];
  const failures: unknown[] = [];
  for (const result of results) {
    if (result.status === 'fulfilled') artifacts.push(result.value);
    else failures.push(result.reason);
  }
  const retryableFailure = failures.find((failure) => !isUnusable(failure));
  if (retryableFailure !== undefined) throw retryableFailure;
  if (failures.length > 0 && artifacts.length === 0) throw failures[0];
  return artifacts;
}

/** Property in which an output differs from the plan. */
interface OutputDifference {
  field: 'contentType' | 'width' | 'height' | 'durationSeconds' | 'hasAudio';
  expected: string | number | boolean;
  found: string | number | boolean | null;
}

/**
 * Expected content types of videos and audio, which are stored without conversion. Images are
 * converted if necessary.
 */
const contentTypes: Partial<Record<OutputSpec['medium'], string>> = {
  video: 'video/mp4',
  audio: 'audio/mpeg',
};
/**
 * Tolerances when outputs are compared with the plan: encoders round durations to whole frames, and
 * widths and heights to even numbers.
 */
const secondsTolerance = 0.5;
const pixelsTolerance = 2;

/**
 * Returns the properties of an artifact that differ from the plan. Properties that the plan does
 * not specify are not compared.
 */
export function findDifferences(output: OutputSpec, artifact: StoredArtifact): OutputDifference[] {
  const expectedProperties = { contentType: contentTypes[output.medium], ...output.expected };
  const tolerances = {
    width: pixelsTolerance,
    height: pixelsTolerance,
    durationSeconds: secondsTolerance,
  };
  const differences: OutputDifference[] = [];
  for (const field of ['contentType', 'hasAudio'] as const) {
    const expectedValue = expectedProperties[field];
    const actualValue = artifact[field];
    if (expectedValue !== undefined && actualValue !== expectedValue)
      differences.push({ field, expected: expectedValue, found: actualValue });
  }
  for (const field of ['width', 'height', 'durationSeconds'] as const) {
    const expectedValue = expectedProperties[field];
    const actualValue = artifact[field];
    const isDifferent =
      actualValue === null ||
      Math.abs(actualValue - (expectedValue ?? actualValue)) > tolerances[field];
    if (expectedValue !== undefined && isDifferent)
      differences.push({ field, expected: expectedValue, found: actualValue });
  }
  return differences;
}

/**
 * Returns the discounts for each unit of a delivered artifact on the price and on that of the catalog, in
 * micro-credits. They are 0 if the artifact matches no cheaper variant.
 */
export function findUnitDiscounts(
  output: OutputSpec,
  artifact: StoredArtifact,
): { price: number; cost: number } {
  const { width, height, hasAudio } = artifact;
  const pixels = width === null || height === null ? null : width * height;
  const matchingVariants = (output.variants ?? []).filter(
    (variant) =>
      (variant.hasAudio === undefined || hasAudio === variant.hasAudio) &&
      (variant.pixelsBelow === undefined || (pixels !== null && pixels < variant.pixelsBelow)),
  );
  return {
    price: Math.max(0, ...matchingVariants.map((variant) => variant.unitDiscountMicro)),
    cost: Math.max(
      0,
      ...matchingVariants.map(
        ({ unitDiscountMicro, unitCostDiscountMicro = unitDiscountMicro }) => unitCostDiscountMicro,
      ),
    ),
  };
}
