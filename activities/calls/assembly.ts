/** Making one artifact of several: the lines of a dialogue become one recording. */
import { Readable } from 'node:stream';
import { Context } from '@temporalio/activity';
import {
  EncodedPacketSink,
  Input,
  MP3,
  UnsupportedInputFormatError,
  type Source,
} from 'mediabunny';
import type { CallOutputs, JobPlan, StoredArtifact } from '../../jobs/job-plan.ts';
import { attempt } from './attempt.ts';
import { ProviderFailure } from '../providers/provider.ts';
import { StorageFailure, type ArtifactStore } from '../storage/artifacts.ts';
import { storedSource } from '../storage/media.ts';
import type { Storage } from '../storage/storage.ts';

/** What is to be made, of what, and under which number it is kept. */
interface AssemblyTask {
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

/** Activities over stored artifacts, on the Studio queue. Done twice it gives the same object: the first write under a key wins. */
export function createAssembly(deps: AssemblyDeps) {
  return {
    async assemble(task: AssemblyTask): Promise<CallOutputs> {
      const { cancellationSignal } = Context.current();
      const artifact = await attempt(() => concatAudio(deps, task, cancellationSignal));
      const { callIndex } = task;
      return { callIndex, artifacts: [artifact], data: null, delivered: 0, error: null };
    },
  };
}
export type Assembly = ReturnType<typeof createAssembly>;

/**
 * Joins MP3 files of the same settings, frame after frame.
 * @throws StorageFailure to try again, ProviderFailure `failed` when the parts cannot be joined
 */
async function concatAudio(
  { storage, artifacts }: AssemblyDeps,
  task: AssemblyTask,
  signal: AbortSignal,
): Promise<StoredArtifact> {
  let unusable: NotMp3Error | undefined;
  async function* joined(): AsyncGenerator<Uint8Array> {
    let first: string | undefined;
    try {
      for (const { storageKey } of task.parts) {
        if ((await storage.size(storageKey)) === null) throw new Error('a part is gone');
        yield* framesOf(storedSource(storage, storageKey), (format) => {
          first ??= format;
          if (format !== first) throw new NotMp3Error('the parts have different formats');
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
    return await artifacts.store(
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

/** A stream that is not MPEG audio. */
export class NotMp3Error extends Error {
  override readonly name = 'NotMp3Error';
}

/**
 * The frames of one MP3 file. Its tags and its Xing or Info frame describe that file alone: a joined file goes
 * without them and is as long as its frames. `onFormat` hears, before the first of them, what must agree for frames
 * to follow each other in one stream.
 * @throws NotMp3Error; what the source throws
 */
export async function* framesOf(
  source: Source,
  onFormat: (format: string) => void,
): AsyncGenerator<Uint8Array> {
  const input = new Input({ source, formats: [MP3] });
  try {
    const track = await input.getPrimaryAudioTrack();
    if (!track) throw new NotMp3Error('there is no MPEG audio in a part');
    // The sampling rate tells the version of MPEG too.
    onFormat(`${track.sampleRate} Hz, ${track.numberOfChannels} channel(s)`);
    for await (const { data } of new EncodedPacketSink(track).packets()) yield data;
  } catch (error) {
    if (!(error instanceof UnsupportedInputFormatError)) throw error;
    throw new NotMp3Error('there is no MPEG audio in a part', { cause: error });
  } finally {
    input.dispose();
  }
}
