/** Uploads a file: requests a signed upload URL, and sends the file to this URL. */
import type { Client } from 'openapi-fetch';
import { StudioError } from './errors.ts';
import type { paths } from './schema.ts';
import type { Send } from './transport.ts';

/** Options of an upload. */
export interface UploadOptions {
  /** File name; defaults to the name of a `File`. */
  filename?: string;
  /** Media type; defaults to the type of the `Blob`, or to the type that the file name implies. */
  contentType?: string;
  signal?: AbortSignal;
  /** Timeout of the transfer in milliseconds; 900,000 by default. */
  timeoutMs?: number;
}

/** Uploaded file. */
export interface UploadedFile {
  /** Id of the file, for request fields such as `fileId`. */
  fileId: string;
  /** URL of the file, for request fields such as `imageUrl`. Opening it requires no API key. */
  url: string;
  storagePath: string;
}

const transferMs = 900_000;

/** Uploads a file. @throws StudioError */
export async function uploadFile(
  { api, send }: { api: Client<paths>; send: Send },
  file: Blob,
  options: UploadOptions,
): Promise<UploadedFile> {
  const { signal, timeoutMs = transferMs } = options;
  const filename = options.filename ?? ('name' in file ? String(file.name) : undefined);
  const contentType = options.contentType ?? (file.type === '' ? undefined : file.type);
  const { data } = await api.POST('/api/v1/storage/upload-url', {
    body: {
      ...(filename !== undefined && { filename }),
      ...(contentType !== undefined && { contentType }),
      ...(file.size > 0 && { size: file.size }),
    },
    signal: signal ?? null,
  });
  if (!data) throw new StudioError('Internal server error', 'The response has no upload URL.');
  const { uploadUrl, method, headers, fileId, url, storagePath } = data;
  try {
    await send({ url: uploadUrl, method, headers, body: file, signal, timeoutMs });
  } catch (error) {
    // The upload URL accepts one file, and only this client has the URL. If the URL has already
    // received a file, an earlier attempt stored it, but its response was lost.
    const isStored =
      error instanceof StudioError && (error.code === 'ALREADY_UPLOADED' || error.status === 412);
    if (!isStored) throw error;
  }
  return { fileId, url, storagePath };
}
