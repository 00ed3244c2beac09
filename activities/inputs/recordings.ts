/**
 * Recordings that callers bring: kept as uploads, and looked at before their request is priced. What
 * came with a request that is refused is to be discarded (`Uploads.discard`). Only containers are read here, never sound, so memory stays flat.
 */
import { rm } from 'node:fs/promises';
import { FilePathSource, type Source } from 'mediabunny';
import { fieldError } from '../../domain/errors.ts';
import type { Recording, RecordingSource } from '../../studio/capability.ts';
import type { Inputs } from './inputs.ts';
import { readContainer, storedSource } from '../storage/media-container.ts';
import { writeSpoolFile } from '../storage/spool.ts';
import type { Storage } from '../storage/storage.ts';
import type { UploadOwner, Uploads } from '../storage/uploads.ts';
import { fileTooLarge, type UploadedFile } from './pictures.ts';

interface RecordingsDeps {
  storage: Storage;
  uploads: Uploads;
  inputs: Inputs;
}

/** A recording that came with its request. */
export interface KeptRecording {
  /** The same for the same bytes, so that a repeated request is the same request. */
  fileId: string;
  recording: Extract<Recording, { kind: 'file' }>;
}

/** Recordings as inputs. */
export interface Recordings {
  /**
   * Keeps an uploaded recording; `field` names it in errors.
   * @throws GatewayError INVALID_REQUEST when it cannot be read, FILE_TOO_LARGE when it was cut,
   *   STORAGE_QUOTA_EXCEEDED
   */
  keep: (file: UploadedFile, owner: UploadOwner) => Promise<KeptRecording>;
  /**
   * Looks at a recording of the organization; a foreign URL is only checked, never fetched here.
   * @throws GatewayError INVALID_INPUT_URL naming the field
   */
  find: (wanted: RecordingSource, organizationId: string) => Promise<Recording>;
}

/** Containers that are kept, by their MIME type; another one that can be read is kept as `bin`. */
const extensions: Readonly<Record<string, string>> = {
  'audio/mpeg': 'mp3',
  'audio/wav': 'wav',
  'audio/flac': 'flac',
  'audio/ogg': 'ogg',
  'audio/mp4': 'm4a',
  'audio/aac': 'aac',
  'video/mp4': 'mp4',
  'video/quicktime': 'mov',
  'video/webm': 'webm',
};

/** See `Recordings`. */
export function createRecordings(deps: RecordingsDeps): Recordings {
  const { storage, uploads, inputs } = deps;
  return {
    async keep({ field, stream }, { organizationId, keyId }) {
      const path = await storage.spoolPath();
      try {
        const file = await writeSpoolFile(path, stream);
        if (stream.truncated) throw fileTooLarge(field);
        const { extension, durationSeconds } = await measure(new FilePathSource(path), field);
        const storageKey = await uploads.keep({ organizationId, keyId, extension, path, ...file });
        const fileId = `file_${file.sha256.slice(0, 32)}`;
        return { fileId, recording: { kind: 'file', storageKey, durationSeconds } };
      } finally {
        await rm(path, { force: true });
      }
    },

    async find({ field, source }, organizationId) {
      const input = await inputs.resolve({ field, url: source }, organizationId);
      if (input.kind === 'url') return input;
      const { storageKey } = input;
      const { durationSeconds } = await measure(storedSource(storage, storageKey), field);
      return { kind: 'file', storageKey, durationSeconds };
    },
  };
}

/** What a recording is and how long. @throws GatewayError INVALID_REQUEST naming the field */
async function measure(
  source: Source,
  field: string,
): Promise<{ extension: string; durationSeconds: number }> {
  const found = await readContainer(source);
  if (!found?.hasAudio || !(found.durationSeconds > 0)) {
    throw fieldError('INVALID_REQUEST', field, 'is no recording that can be read');
  }
  const { mimeType, durationSeconds } = found;
  return { extension: extensions[mimeType] ?? 'bin', durationSeconds };
}
