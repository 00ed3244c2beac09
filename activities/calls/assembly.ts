/** Making one artifact of several: the lines of a dialogue become one recording. */
import { Readable } from 'node:stream';
import { Context } from '@temporalio/activity';
import type { CallOutputs, JobPlan, StoredArtifact } from '../../jobs/job-plan.ts';
import { attempt } from './attempt.ts';
import { ProviderFailure } from '../providers/provider.ts';
import { StorageFailure, type ArtifactStore } from '../storage/artifacts.ts';
import { framesOf, NotMp3Error } from '../storage/mp3-stream.ts';
import type { Storage } from '../storage/storage.ts';

/** What is to be made, of what, and under which number it is kept. */
export interface AssemblyTask {
  jobId: string;
  organizationId: string;
  kind: NonNullable<JobPlan['assembly']>;
  /** The index of the output to make: the number of calls. */
  callIndex: number;
  parts: StoredArtifact[];
}

interface AssemblyDeps {
  artifacts: ArtifactStore;
  storage: Storage;
}

/** Activities over stored artifacts; they run on the Studio queue. */
export interface Assembly {
  assemble: (task: AssemblyTask) => Promise<CallOutputs>;
}

/** See `Assembly`. Done twice it gives the same object: the first write under a key wins. */
export function createAssembly(deps: AssemblyDeps): Assembly {
  return {
    async assemble(task) {
      const { cancellationSignal } = Context.current();
      const artifact = await attempt(() => concatAudio(deps, task, cancellationSignal));
      const { callIndex } = task;
      return { callIndex, artifacts: [artifact], data: null, delivered: 0, error: null };
    },
  };
}

/**
 * Joins MP3 files of the same settings, frame after frame.
 * @throws StorageFailure to try again, ProviderFailure `failed` when the parts cannot be joined
 */
async function concatAudio(
  deps: AssemblyDeps,
  task: AssemblyTask,
  signal: AbortSignal,
): Promise<StoredArtifact> {
  let unusable: NotMp3Error | undefined;
  async function* joined(): AsyncGenerator<Buffer> {
    let first: string | undefined;
    try {
      for (const part of task.parts) {
        const object = await deps.storage.open(part.storageKey);
        if (!object) throw new Error('a part is gone');
        yield* framesOf(object.stream, ({ signature }) => {
          first ??= signature;
          if (signature !== first) throw new NotMp3Error('the parts have different formats');
        });
      }
    } catch (error) {
      if (error instanceof NotMp3Error) unusable = error;
      throw error;
    }
  }
  const stream = Readable.from(joined(), { objectMode: false });
  const { organizationId, jobId, callIndex } = task;
  try {
    return await deps.artifacts.store(
      { kind: 'stream', stream },
      {
        output: { medium: 'audio', format: null },
        place: { organizationId, jobId, callIndex, outputIndex: 0 },
        signal,
      },
    );
  } catch (cause) {
    if (unusable) throw new ProviderFailure('failed', unusable.message, { cause });
    // Unlike a provider's bytes, stored parts can be read again.
    throw new StorageFailure('the parts could not be joined', { retryable: true, cause });
  }
}
