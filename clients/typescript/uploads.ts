/** Uploading a file: a signed URL from the service, then the file to that URL. */
import type { Client } from 'openapi-fetch';
import { StudioError } from './errors.ts';
import type { paths } from './schema.ts';
import type { Send } from './transport.ts';

/** What is said of a file. */
export interface UploadOptions {
  /** Absent: the name of a `File`. */
  filename?: string;
  /** A media type; absent: the file's own, or what its name says. */
  contentType?: string;
  signal?: AbortSignal;
  /** Milliseconds for the transfer; 900,000 by default. */
  timeoutMs?: number;
}

/** A file that the service has. */
export interface UploadedFile {
  /** For fields such as `fileId`. */
  fileId: string;
  /** For fields such as `imageUrl`; readable without a key. */
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
  if (!data) throw new StudioError('Internal server error', 'The answer has no upload URL.');
  const { uploadUrl, method, headers, fileId, url, storagePath } = data;
  try {
    await send({ url: uploadUrl, method, headers, body: file, signal, timeoutMs });
  } catch (error) {
    // The URL is ours alone and takes one file: an attempt without an answer has brought it there.
    const isThere =
      error instanceof StudioError && (error.code === 'ALREADY_UPLOADED' || error.status === 412);
    if (!isThere) throw error;
  }
  return { fileId, url, storagePath };
}
