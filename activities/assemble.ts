/**
 * Activity `assemble`: joins stored artifacts into one artifact, for example the parts of a
 * dialogue into one recording.
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
import type { CallOutputs, JobPlan, StoredArtifact } from '../domain/job-plan.ts';
import { attempt } from './attempt.ts';
import { ProviderFailure } from '../domain/provider-failure.ts';
import { StorageFailure, type Storage } from '../storage/storage.ts';
import type { ArtifactStore } from '../storage/artifacts.ts';
import { createMediaSource, createObjectSource } from '../storage/byte-source.ts';

/** Input of `assemble`: the artifacts to join. */
export interface AssemblyInput {
  jobId: string;
  organizationId: string;
  kind: NonNullable<JobPlan['assembly']>;
  /** Call index under which the joined artifact is stored: the number of calls of the job. */
  callIndex: number;
  parts: StoredArtifact[];
  /** Model of the job; absent in jobs that an older version started. */
  model?: string | null;
}

interface AssemblyDeps {
  artifacts: ArtifactStore;
  storage: Storage;
}

/** Joins the artifacts and stores the result. May be retried: stored artifacts are not replaced. */
export async function assemble(deps: AssemblyDeps, task: AssemblyInput): Promise<CallOutputs> {
  const { cancellationSignal } = Context.current();
  const artifact = await attempt(() => concatAudio(deps, task, cancellationSignal));
  const { callIndex } = task;
  return { callIndex, artifacts: [artifact], data: null, delivered: 0, error: null };
}

/**
 * Joins MP3 files with the same sampling rate and number of channels, frame by frame.
 * @throws ProviderFailure `failed` if the parts are not MP3 files of one format; a retryable
 * StorageFailure if a part cannot be read or the joined file cannot be stored
 */
async function concatAudio(
  { storage, artifacts }: AssemblyDeps,
  task: AssemblyInput,
  signal: AbortSignal,
): Promise<StoredArtifact> {
  let formatError: NotMp3Error | undefined;
  async function* joinFrames(): AsyncGenerator<Uint8Array> {
    let firstFormat: string | undefined;
    try {
      for (const { storageKey } of task.parts) {
        if ((await storage.size(storageKey)) === null)
          throw new Error('a part is missing from storage');
        yield* framesOf(createMediaSource(createObjectSource(storage, storageKey)), (format) => {
          firstFormat ??= format;
          if (format !== firstFormat) throw new NotMp3Error('the parts have different formats');
        });
      }
    } catch (error) {
      if (error instanceof NotMp3Error) formatError = error;
      throw error;
    }
  }
  const stream = Readable.from(joinFrames(), { objectMode: false });
  const { organizationId, jobId, callIndex } = task;
  try {
    return await artifacts.store(
      { kind: 'stream', stream },
      {
        output: { medium: 'audio', format: null },
        place: { organizationId, jobId, callIndex, outputIndex: 0 },
        mark: { model: task.model ?? null, hasCallerMedia: false },
        signal,
      },
    );
  } catch (cause) {
    if (formatError) throw new ProviderFailure('failed', formatError.message, { cause });
    // The failure is retryable, because stored parts can be read again, unlike the response of a
    // provider.
    throw new StorageFailure('the parts could not be joined', { retryable: true, cause });
  }
}

/** Error for a part that is not an MP3 file, or has another format than the first part. */
export class NotMp3Error extends Error {
  override readonly name = 'NotMp3Error';
}

/**
 * Yields the audio frames of one MP3 file. Omits its tags and its Xing or Info frame, which
 * describe only that file. Before the first frame, `onFormat` receives the sampling rate and the
 * number of channels, which must be the same in all joined files.
 * @throws NotMp3Error, or an error from the source
 */
export async function* framesOf(
  source: Source,
  onFormat: (format: string) => void,
): AsyncGenerator<Uint8Array> {
  const input = new Input({ source, formats: [MP3] });
  try {
    const track = await input.getPrimaryAudioTrack();
    if (!track) throw new NotMp3Error('a part contains no MPEG audio');
    // The sampling rate also identifies the MPEG version.
    onFormat(`${track.sampleRate} Hz, ${track.numberOfChannels} channel(s)`);
    for await (const { data } of new EncodedPacketSink(track).packets()) yield data;
  } catch (error) {
    if (!(error instanceof UnsupportedInputFormatError)) throw error;
    throw new NotMp3Error('a part contains no MPEG audio', { cause: error });
  } finally {
    input.dispose();
  }
}
