/** Results whose outputs fail in part. */
import { Readable } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { ProviderFailure } from '../../domain/provider-failure.ts';
import type { CallInput, StoredArtifact } from '../../domain/job-plan.ts';
import { createLogger } from '../../platform/logger.ts';
import { storeResult } from '../../providers/call-results.ts';
import { StorageFailure } from '../../storage/storage.ts';

const unusable = new ProviderFailure('failed', 'not an image');
const retryable = new StorageFailure('not stored', { retryable: true });
const facts = {
  width: 1,
  height: 1,
  durationSeconds: null,
  hasAudio: null,
  contentCredentials: 'none' as const,
};
const file = { storageKey: 'org/job/0-0.png', contentType: 'image/png', sizeBytes: 1, sha256: '' };
const artifact: StoredArtifact = { ...file, ...facts };
const task: CallInput = {
  jobId: 'job',
  organizationId: 'org',
  callIndex: 0,
  routeIndex: 0,
  route: {
    provider: 'fal',
    taskQueue: 'fal',
    providerEndpoint: 'draw',
    input: {},
    notifies: true,
    submitTimeoutMs: 1000,
  },
  output: { medium: 'image', format: null },
  meter: 'artifact',
  quantity: 2,
  source: null,
  submitAttemptsMax: 3,
};

/** Stores a result with one output for each entry: its artifact, or the failure of its storage. */
function storeOutputs(
  entries: readonly (StoredArtifact | Error)[],
  changed: Partial<CallInput> = {},
) {
  const outputs = entries.map(() => ({ kind: 'stream' as const, stream: Readable.from([]) }));
  const store = async (_output: unknown, { place }: { place: { outputIndex: number } }) => {
    const entry = entries[place.outputIndex] ?? unusable;
    if (entry instanceof Error) throw entry;
    return entry;
  };
  const [{ signal }, logger] = [new AbortController(), createLogger('test', 'silent')];
  const options = { artifacts: { store }, task: { ...task, ...changed }, signal, logger };
  return storeResult({ outputs, data: null }, options);
}

it.each([
  [0.04, 1],
  [3.05, 3],
  [3.15, 4],
  [9, 5],
])(
  'a recording of %d seconds is charged as %d of 5 seconds',
  async (durationSeconds, delivered) => {
    const metered = { meter: 'second', quantity: 5 } as const;
    expect(await storeOutputs([{ ...artifact, durationSeconds }], metered)).toMatchObject({
      delivered,
    });
  },
);

describe('a result with several outputs', () => {
  it('keeps no more outputs than were requested', async () => {
    const stored = await storeOutputs([artifact, artifact, artifact]);
    expect(stored).toMatchObject({ artifacts: [artifact, artifact], delivered: 2, error: null });
    const recording = await storeOutputs([artifact, artifact], { meter: 'second', quantity: 5 });
    expect(recording.artifacts).toHaveLength(1);
  });

  it('keeps the usable outputs if the others are unusable', async () => {
    expect(await storeOutputs([unusable, artifact])).toMatchObject({
      artifacts: [artifact],
      delivered: 1,
      error: { code: 'PROVIDER_ERROR' },
    });
  });

  it.each([
    ['is stored again if one output failed temporarily', [unusable, retryable], retryable],
    ['is stored again although an output was stored', [artifact, retryable], retryable],
    ['fails if all outputs are unusable', [unusable, unusable], unusable],
  ])('%s', async (_name, entries, failure) => {
    await expect(storeOutputs(entries)).rejects.toBe(failure);
  });
});
