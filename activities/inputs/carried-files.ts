/**
 * Pictures and recordings that come with a request: kept as uploads, and looked at before it is priced. What came
 * with a request that is refused is to be discarded (`Uploads.discard`). Of recordings only containers are read.
 */
import { rm } from 'node:fs/promises';
import type { Readable } from 'node:stream';
import type { Source } from 'mediabunny';
import { fieldError } from '../../domain/errors.ts';
import { writeSpoolFile, type Digest } from '../storage/spool.ts';
import { untypedExtension, type Storage } from '../storage/storage.ts';
import {
  fileSource,
  headBytes,
  headOf,
  inspectHead,
  mediaTypeOf,
  readContainer,
  storedSource,
} from '../storage/media.ts';
import type { UploadOwner, Uploads } from '../storage/uploads.ts';
import type { Recording, RecordingSource } from '../../studio/capability.ts';
import type { Inputs } from './inputs.ts';

/** A file on its way in; `truncated` tells at its end that it had more bytes than it may have. */
interface UploadedFile {
  field: string;
  stream: Readable & { truncated: boolean };
}

/** A picture that came with its request. */
export interface KeptPicture {
  fileId: string;
  storageKey: string;
  /** Of its bytes, in hex. */
  sha256: string;
}

/** Writes a file to the spool, there to be looked at and kept by `keep`, which moves it. @throws GatewayError FILE_TOO_LARGE */
async function spooled<Kept>(
  storage: Storage,
  { field, stream }: UploadedFile,
  keep: (file: Digest & { path: string }) => Promise<Kept>,
): Promise<Kept> {
  const path = await storage.spoolPath();
  try {
    const digest = await writeSpoolFile(path, stream);
    if (stream.truncated) throw fieldError('FILE_TOO_LARGE', field, 'the file is too large');
    return await keep({ path, ...digest });
  } finally {
    await rm(path, { force: true });
  }
}

/** Pictures as inputs. */
export function createPictures({ storage, uploads }: { storage: Storage; uploads: Uploads }) {
  return {
    /**
     * Keeps an uploaded picture; `field` names it in errors.
     * @throws GatewayError UNSUPPORTED_MEDIA_TYPE, FILE_TOO_LARGE, STORAGE_QUOTA_EXCEEDED
     */
    keep: (uploaded: UploadedFile, { organizationId, keyId }: UploadOwner): Promise<KeptPicture> =>
      spooled(storage, uploaded, async (file) => {
        const { extension, medium } = await inspectHead(await headOf(file.path, headBytes), null);
        if (medium !== 'image') {
          throw fieldError('UNSUPPORTED_MEDIA_TYPE', uploaded.field, 'must be a picture');
        }
        const storageKey = await uploads.keep({ organizationId, keyId, extension, ...file });
        const [, name = ''] = storageKey.split('/');
        return { fileId: name.split('.')[0] ?? '', storageKey, sha256: file.sha256 };
      }),
  };
}
export type Pictures = ReturnType<typeof createPictures>;

interface RecordingsDeps {
  storage: Storage;
  uploads: Uploads;
  inputs: Inputs;
}

/** A recording that came with its request. */
interface KeptRecording {
  /** The same for the same bytes, so that a repeated request is the same request. */
  fileId: string;
  recording: Extract<Recording, { kind: 'file' }>;
}

/** Recordings as inputs. */
export function createRecordings({ storage, uploads, inputs }: RecordingsDeps) {
  return {
    /**
     * Keeps an uploaded recording; `field` names it in errors.
     * @throws GatewayError INVALID_REQUEST when it cannot be read, FILE_TOO_LARGE when it was cut,
     *   STORAGE_QUOTA_EXCEEDED
     */
    keep: (
      uploaded: UploadedFile,
      { organizationId, keyId }: UploadOwner,
    ): Promise<KeptRecording> =>
      spooled(storage, uploaded, async (file) => {
        const source = fileSource(file.path);
        const { extension, durationSeconds } = await measure(source, uploaded.field);
        const storageKey = await uploads.keep({ organizationId, keyId, extension, ...file });
        const fileId = `file_${file.sha256.slice(0, 32)}`;
        return { fileId, recording: { kind: 'file', storageKey, durationSeconds } };
      }),

    /**
     * Looks at a recording of the organization; a foreign URL is only checked, never fetched here.
     * @throws GatewayError INVALID_INPUT_URL naming the field
     */
    async find({ field, source }: RecordingSource, organizationId: string): Promise<Recording> {
      const input = await inputs.resolve({ field, url: source }, organizationId);
      if (input.kind === 'url') return input;
      const { storageKey } = input;
      const { durationSeconds } = await measure(storedSource(storage, storageKey), field);
      return { kind: 'file', storageKey, durationSeconds };
    },
  };
}
export type Recordings = ReturnType<typeof createRecordings>;

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
  const extension = mediaTypeOf(mimeType)?.extension ?? untypedExtension;
  return { extension, durationSeconds };
}
