import { createHash } from 'node:crypto';

/** Size of all generated media; tests can change it while the sandbox runs. */
export interface MediaSize {
  /** Whether every image and video is 64×64 and generated once, which uses less CPU. */
  tiny: boolean;
}

/** Generated file, with the properties that providers report about it. */
export interface Media {
  bytes: Buffer;
  contentType: string;
  /** File name extension without the dot. */
  extension: string;
  width: number;
  height: number;
  /** Only set for videos. */
  video?: { durationSeconds: number; fps: number; frames: number };
}

/** Error for an input file that cannot be fetched or decoded; `field` is the request field with its URL. */
export class MediaInputError extends Error {
  override readonly name = 'MediaInputError';
  readonly kind: 'download' | 'decode' | 'too_large';
  readonly field: string;
  readonly url: string;

  constructor(kind: MediaInputError['kind'], { field, url }: MediaInput) {
    super(
      {
        download: `Failed to download the file: ${url.slice(0, 200)}`,
        decode: 'Failed to load the file. It may be corrupt or of an unsupported format.',
        too_large: 'The input file or the output would be too large.',
      }[kind],
    );
    this.kind = kind;
    this.field = field;
    this.url = url;
  }
}

/** Input file of a request. */
export interface MediaInput {
  field: string;
  /** URL with the scheme `http`, `https` or `data`. */
  url: string;
}

/** Derives a number from 0 to 2³¹ − 1 from a string. */
export function deriveSeed(text: string): number {
  return createHash('sha256').update(text).digest().readUInt32BE(0) >>> 1;
}

const inputBytesMax = 64 * 1024 * 1024;
const fetchTimeoutMs = 20_000;

async function readCapped(response: Response, input: MediaInput): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  let sizeBytes = 0;
  for await (const chunk of response.body ?? []) {
    sizeBytes += chunk.length;
    if (sizeBytes > inputBytesMax) throw new MediaInputError('too_large', input);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

/**
 * Fetches a URL with the scheme `http`, `https` or `data`. Private addresses are allowed, because the sandbox runs on a
 * developer's machine.
 * @throws MediaInputError if the file cannot be fetched or is too large
 */
export async function fetchInput(input: MediaInput): Promise<Buffer> {
  if (!/^(https?|data):/i.test(input.url)) throw new MediaInputError('download', input);
  try {
    const response = await fetch(input.url, { signal: AbortSignal.timeout(fetchTimeoutMs) });
    if (!response.ok) throw new MediaInputError('download', input);
    return await readCapped(response, input);
  } catch (error) {
    throw error instanceof MediaInputError ? error : new MediaInputError('download', input);
  }
}
