/** Making one artifact of several: the lines of a dialogue become one recording. */
import { Readable } from 'node:stream';
import { Context } from '@temporalio/activity';
import type { CallOutputs, JobPlan, StoredArtifact } from '../../jobs/job-plan.ts';
import { attempt } from './attempt.ts';
import { ProviderFailure } from '../providers/provider.ts';
import { StorageFailure, type ArtifactStore } from '../storage/artifacts.ts';
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
/** See `createAssembly`. */
export type Assembly = ReturnType<typeof createAssembly>;

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

// MP3 streams, as far as joining them needs: tags and the Xing/Info frame of a file describe that file alone, so a
// joined file goes without them and is as long as its frames (ISO 11172-3; ID3v2 §3.1).

/** What must agree for frames to follow each other in one stream. */
interface Mp3Format {
  /** MPEG version and layer, sample rate index, mono or not: as the bits of a frame header. */
  signature: string;
}

/** A stream that is not MPEG audio. */
export class NotMp3Error extends Error {
  override readonly name = 'NotMp3Error';
}

const id3v1Bytes = 128;
/** No tag of a provider's is larger; a picture in it may be. */
const headBytesMax = 4 * 1024 * 1024;
const samplesPerFrame = { mpeg1: 1152, mpeg2: 576 };
const sampleRates = [44_100, 48_000, 32_000];
/** Kilobits per second of layer III by index, for MPEG-1 and for MPEG-2 and 2.5. */
const bitRates = {
  mpeg1: [0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320],
  mpeg2: [0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160],
};

interface FrameHeader {
  lengthBytes: number;
  /** Where the words `Xing` or `Info` stand in a frame that holds no sound. */
  xingOffset: number;
  signature: string;
}

/** Reads the frame header at an offset; null when there is none. */
export function readFrameHeader(bytes: Buffer, offset: number): FrameHeader | null {
  if (offset + 4 > bytes.length) return null;
  const word = bytes.readUInt32BE(offset);
  const version = (word >>> 19) & 3;
  const layer = (word >>> 17) & 3;
  const rateIndex = (word >>> 10) & 3;
  // Eleven set bits; version 1 and rate 3 are reserved; layer 1 means III.
  if (word >>> 21 !== 0x7ff || version === 1 || layer !== 1 || rateIndex === 3) return null;
  const family = version === 3 ? 'mpeg1' : 'mpeg2';
  const bitRate = bitRates[family][(word >>> 12) & 15];
  const sampleRate = (sampleRates[rateIndex] ?? 0) / (version === 3 ? 1 : version === 2 ? 2 : 4);
  if (!bitRate) return null;
  const mono = ((word >>> 6) & 3) === 3;
  const padding = (word >>> 9) & 1;
  const sideBytes = family === 'mpeg1' ? (mono ? 17 : 32) : mono ? 9 : 17;
  return {
    lengthBytes: Math.floor((samplesPerFrame[family] * bitRate * 125) / sampleRate) + padding,
    xingOffset: 4 + sideBytes,
    signature: `${version}.${rateIndex}.${mono ? 'mono' : 'stereo'}`,
  };
}

/** Bytes before the first sound: an ID3v2 tag and a Xing or Info frame. Null: more bytes are needed. */
function headOf(bytes: Buffer): { skipBytes: number; signature: string } | null {
  let start = 0;
  while (bytes.subarray(start, start + 3).toString('latin1') === 'ID3') {
    if (bytes.length < start + 10) return null;
    // Sizes in ID3v2 have seven bits a byte.
    const size = bytes
      .subarray(start + 6, start + 10)
      .reduce((sum, byte) => sum * 128 + (byte & 0x7f), 0);
    start += 10 + size;
  }
  // The frame's length and its marker both have to be seen.
  if (bytes.length < start + 64) return null;
  const frame = readFrameHeader(bytes, start);
  if (!frame) throw new NotMp3Error('there is no MPEG audio frame where one must be');
  const marker = bytes.subarray(start + frame.xingOffset).toString('latin1', 0, 4);
  const silent = marker === 'Xing' || marker === 'Info';
  return { skipBytes: start + (silent ? frame.lengthBytes : 0), signature: frame.signature };
}

/**
 * The frames of one MP3 file without its tags and its Xing frame; memory stays flat.
 * @throws NotMp3Error
 */
export async function* framesOf(
  source: AsyncIterable<Buffer>,
  onFormat: (format: Mp3Format) => void,
): AsyncGenerator<Buffer> {
  let head: Buffer | null = Buffer.alloc(0);
  let skipBytes = 0;
  // The last bytes are held back until it is known that they are no ID3v1 tag.
  let tail: Buffer = Buffer.alloc(0);
  for await (const chunk of source) {
    let bytes: Buffer = chunk;
    if (head !== null) {
      head = Buffer.concat([head, bytes]);
      const found = headOf(head);
      if (!found && head.length > headBytesMax) throw new NotMp3Error('the tag is too large');
      if (!found) continue;
      onFormat({ signature: found.signature });
      ({ skipBytes } = found);
      bytes = head;
      head = null;
    }
    const skipped = Math.min(skipBytes, bytes.length);
    skipBytes -= skipped;
    tail = Buffer.concat([tail, bytes.subarray(skipped)]);
    if (tail.length > id3v1Bytes) {
      yield tail.subarray(0, tail.length - id3v1Bytes);
      tail = tail.subarray(tail.length - id3v1Bytes);
    }
  }
  if (head !== null) throw new NotMp3Error('the file ends before its first frame');
  const tagged = tail.length === id3v1Bytes && tail.toString('latin1', 0, 3) === 'TAG';
  if (!tagged && tail.length > 0) yield tail;
}
