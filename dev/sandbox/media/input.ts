/** Fetches the files that a request names, as the real provider would. */
import { MediaInputError, type MediaInput } from './media.ts';

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
 * The bytes of an `http(s):` or `data:` URL. There is no guard against private addresses: the
 * sandbox runs on a developer's machine, where every input is private.
 * @throws MediaInputError when it cannot be had.
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
