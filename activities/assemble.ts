/**
 * Activity `assemble`: joins stored artifacts into one, for example the parts of a dialogue into
 * one recording.
 */
import { Readable } from 'node:stream';
import { Context } from '@temporalio/activity';
import {
  EncodedPacketSink,
  Input,
  MP3,
  UnsupportedInputFormatError,
  type Source,
} from 'mediabunny';
import type { CallOutputs, JobPlan, StoredArtifact } from '../jobs/job-plan.ts';
import { attempt } from './attempt.ts';
import { ProviderFailure } from '../domain/provider-failure.ts';
import { StorageFailure } from '../storage/storage-failure.ts';
import type { ArtifactStore } from '../storage/artifacts.ts';
import { mediaSource, storedSource } from '../storage/byte-source.ts';
import type { Storage } from '../storage/storage.ts';

/** Artifacts to join. */
export interface AssemblyTask {
  jobId: string;
  organizationId: string;
  kind: NonNullable<JobPlan['assembly']>;
  /** Call index of the joined artifact: the number of calls. */
  callIndex: number;
  parts: StoredArtifact[];
}

interface AssemblyDeps {
  artifacts: ArtifactStore;
  storage: Storage;
}

/**
 * Joins the artifacts. A repeated execution returns the same artifact, because the object that was
 * stored first is never replaced.
 */
export async function assemble(deps: AssemblyDeps, task: AssemblyTask): Promise<CallOutputs> {
  const { cancellationSignal } = Context.current();
  const artifact = await attempt(() => concatAudio(deps, task, cancellationSignal));
  const { callIndex } = task;
  return { callIndex, artifacts: [artifact], data: null, delivered: 0, error: null };
}

/**
 * Joins MP3 files with the same sampling rate and channels, frame by frame.
 * @throws StorageFailure (retryable), ProviderFailure `failed` when the parts cannot be joined
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
        yield* framesOf(mediaSource(storedSource(storage, storageKey)), (format) => {
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
    // The failure is retryable because stored parts, unlike a provider's bytes, can be read again.
    throw new StorageFailure('the parts could not be joined', { retryable: true, cause });
  }
}

/** Error of a stream that is not MPEG audio. */
export class NotMp3Error extends Error {
  override readonly name = 'NotMp3Error';
}

/**
 * Yields the frames of one MP3 file, without its tags and its Xing or Info frame, which describe
 * only that file. `onFormat` receives the sampling rate and channels before the first frame: they
 * must be the same in all joined files.
 * @throws NotMp3Error, and errors of the source
 */
export async function* framesOf(
  source: Source,
  onFormat: (format: string) => void,
): AsyncGenerator<Uint8Array> {
  const input = new Input({ source, formats: [MP3] });
  try {
    const track = await input.getPrimaryAudioTrack();
    if (!track) throw new NotMp3Error('there is no MPEG audio in a part');
    // The sampling rate also identifies the MPEG version.
    onFormat(`${track.sampleRate} Hz, ${track.numberOfChannels} channel(s)`);
    for await (const { data } of new EncodedPacketSink(track).packets()) yield data;
  } catch (error) {
    if (!(error instanceof UnsupportedInputFormatError)) throw error;
    throw new NotMp3Error('there is no MPEG audio in a part', { cause: error });
  } finally {
    input.dispose();
  }
}
