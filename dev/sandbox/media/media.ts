import { createHash } from 'node:crypto';

/** Size of all media that the sandbox makes; tests change it while the sandbox runs. */
export interface MediaSize {
  /** Every picture and film is 64×64 and made once, so that a test costs less CPU. */
  tiny: boolean;
}

/** Bytes made by the sandbox, with the fields that a provider returns about them. */
export interface Media {
  bytes: Buffer;
  contentType: string;
  /** File name extension without the dot. */
  extension: string;
  width: number;
  height: number;
  /** Only of videos. */
  video?: { durationSeconds: number; fps: number; frames: number };
}

/** Error of an input that could not be fetched or decoded; `field` is its request field. */
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
        too_large: 'The file, or what would be made of it, is too large.',
      }[kind],
    );
    this.kind = kind;
    this.field = field;
    this.url = url;
  }
}

/** An input file as a request names it. */
export interface MediaInput {
  field: string;
  /** `http(s):` or `data:`. */
  url: string;
}

/** Returns a number from 0 to 2³¹ − 1 derived from a text. */
export function seedOf(text: string): number {
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
 * Fetches an `http(s):` or `data:` URL. Private addresses are allowed, because the sandbox runs on
 * a developer's machine.
 * @throws MediaInputError if it cannot be fetched
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
