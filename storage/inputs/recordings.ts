/** Recordings and other files of a request: received, checked and measured. */
import { assert, fieldError } from '../../domain/errors.ts';
import type { Recording, RecordingSource } from '../../domain/draft-plan.ts';
import { createObjectSource, type ByteSource, createFileSource } from '../byte-source.ts';
import { readAccepted, UnusableFile, type MediaType, type MediaUse } from '../media-types.ts';
import { linesContentType, type Storage } from '../storage.ts';
import type { RequestCopies } from './input-copies.ts';
import { type Inputs, listSecretParameters, parseStorageReference } from './inputs.ts';
import { createReadStream } from 'node:fs';
import { rm } from 'node:fs/promises';
import type { Readable } from 'node:stream';
import type { AcceptFile } from '../picture-conversion.ts';
import { digestStream, writeSpoolFile } from '../spool.ts';
import type { FileReader } from '../file-readers.ts';
import type { UploadOwner } from '../upload-rows.ts';
import type { Uploads } from '../uploads.ts';

interface RecordingsDeps {
  storage: Storage;
  inputs: Inputs;
}

/** Creates the function that finds a recording by its URL or file id. */
export function createRecordings({ storage, inputs }: RecordingsDeps) {
  return {
    /**
     * Checks the recording that a request refers to, and measures a stored file of the
     * organization. A URL of another server is not fetched unless it has secret parameters: the
     * plan then refers to a copy, because Temporal's history must not contain the secrets.
     * @throws GatewayError INVALID_INPUT_URL or FILE_TOO_LARGE with the field; INVALID_REQUEST if
     * the stored file is not readable audio
     */
    async find(
      { field, source }: RecordingSource,
      { reader, copies }: { reader: FileReader; copies: RequestCopies },
    ): Promise<Recording> {
      const input = await inputs.resolve({ field, url: source }, reader);
      const hasSecrets =
        input.kind === 'url' && listSecretParameters(new URL(input.url)).length > 0;
      if (input.kind === 'url' && !hasSecrets) return input;
      const storageKey =
        input.kind === 'url' ? await copy(input.url, field, copies) : input.storageKey;
      const object = createObjectSource(storage, storageKey);
      const sizeBytes = await object.size();
      return { kind: 'file', storageKey, sizeBytes, ...(await measureRecording(object, field)) };
    },
  };
}
export type Recordings = ReturnType<typeof createRecordings>;

/** Copies a recording of another server, and returns the storage key of the copy. */
async function copy(url: string, field: string, copies: RequestCopies): Promise<string> {
  try {
    const storageKey = parseStorageReference(await copies.add(url, 'audio'));
    assert(storageKey !== null, 'the copied recording has no storage key');
    return storageKey;
  } catch (error) {
    if (!(error instanceof UnusableFile)) throw error;
    const code = error.code === 'FILE_TOO_LARGE' ? error.code : 'INVALID_INPUT_URL';
    throw fieldError(code, field, error.message);
  }
}

/** Type and duration (in seconds) of a recording. */
export interface MeasuredRecording {
  type: MediaType;
  hasAlpha: false;
  convertedFrom: null;
  durationSeconds: number;
}

/**
 * Reads the type and the duration of a recording: those of its sound, also in a film.
 * @throws GatewayError INVALID_REQUEST or FILE_TOO_LARGE with the field
 */
async function measureRecording(source: ByteSource, field: string): Promise<MeasuredRecording> {
  try {
    const facts = await readAccepted(source, 'recording');
    const durationSeconds = facts.kind === 'recording' ? (facts.audio?.durationSeconds ?? 0) : 0;
    return { type: facts.type, hasAlpha: false, convertedFrom: null, durationSeconds };
  } catch (error) {
    if (!(error instanceof UnusableFile)) throw error;
    throw fieldError('INVALID_REQUEST', field, error.message);
  }
}

/**
 * File part of a multipart form. When the stream has ended, `truncated` is true if the part
 * exceeded the size limit.
 */
interface FilePart {
  field: string;
  stream: Readable & { truncated: boolean };
}

/** Name and purpose of a file, as its caller sent them. */
interface FileName {
  filename: string;
  purpose: string;
}

/**
 * File received in a request body. It stays in the spool until `store` moves it into the storage.
 */
export interface ReceivedFile {
  /** File id derived from the bytes, so that a retried request has the same id. */
  contentId: string;
  type: Pick<MediaType, 'contentType' | 'extension' | 'name'>;
  /** Whether pixels of a picture may be transparent; false for other files. */
  hasAlpha: boolean;
  sizeBytes: number;
  /** Duration in seconds; null if the file was not received as a recording. */
  durationSeconds: number | null;
  /**
   * Stores the file as an upload of its owner.
   * @throws GatewayError STORAGE_QUOTA_EXCEEDED
   */
  store: (named?: FileName) => Promise<{ fileId: string; storageKey: string }>;
  /** Removes the file from the spool, and from the storage unless it is used. */
  discard: (options: { isUsed: boolean }) => Promise<void>;
}

/**
 * Properties of a spooled file. `durationSeconds` is null if the file was not received as a
 * recording.
 */
interface FileProperties {
  type: Pick<MediaType, 'contentType' | 'extension' | 'name'>;
  hasAlpha: boolean;
  convertedFrom: string | null;
  durationSeconds: number | null;
}

interface RequestFilesDeps {
  storage: Storage;
  acceptFile: AcceptFile;
  uploads: Pick<Uploads, 'storeSpooled' | 'discard' | 'throwIfOverQuota'>;
}

/** Receives a file, and checks it with `inspect`. */
async function receiveFile(
  { storage, uploads }: Omit<RequestFilesDeps, 'acceptFile'>,
  { part: { field, stream }, owner }: { part: FilePart; owner: UploadOwner },
  inspect: (path: string) => Promise<FileProperties>,
): Promise<ReceivedFile> {
  const path = await storage.spoolPath();
  try {
    const digest = await writeSpoolFile(path, stream);
    if (stream.truncated) throw fieldError('FILE_TOO_LARGE', field, 'the file is too large');
    const { type, hasAlpha, convertedFrom, durationSeconds } = await inspect(path);
    // The id is that of the bytes that were sent; a converted file has others.
    const file = convertedFrom ? await digestStream(createReadStream(path)) : digest;
    let storageKey: string | null = null;
    return {
      contentId: `file_${digest.sha256.slice(0, 32)}`,
      type,
      hasAlpha,
      sizeBytes: file.sizeBytes,
      durationSeconds,
      async store(named) {
        storageKey = await uploads.storeSpooled({
          ...owner,
          extension: type.extension,
          convertedFrom,
          path,
          ...file,
          ...named,
        });
        return { fileId: /file_\w+/.exec(storageKey)?.[0] ?? '', storageKey };
      },
      async discard({ isUsed }) {
        await rm(path, { force: true });
        if (storageKey !== null && !isUsed) await uploads.discard(storageKey);
      },
    };
  } catch (error) {
    await rm(path, { force: true });
    throw error;
  }
}

/** Creates the functions that receive the files of a multipart form. */
export function createRequestFiles({ storage, uploads, acceptFile }: RequestFilesDeps) {
  const receive = (
    part: FilePart,
    owner: UploadOwner,
    inspect: (path: string) => Promise<FileProperties>,
  ): Promise<ReceivedFile> => receiveFile({ storage, uploads }, { part, owner }, inspect);

  return {
    /** Checks the storage quota before files are received (`Uploads.throwIfOverQuota`). */
    throwIfOverQuota: uploads.throwIfOverQuota,

    /**
     * Receives a picture. Errors name the field of the part.
     * @throws GatewayError UNSUPPORTED_MEDIA_TYPE, FILE_TOO_LARGE
     */
    receivePicture: (part: FilePart, owner: UploadOwner): Promise<ReceivedFile> =>
      receive(part, owner, (path) =>
        inspectFile(acceptFile, { path, field: part.field, use: 'picture' }),
      ),

    /**
     * Receives a file; without `use`, of any medium. Errors name the field of the part.
     * @throws GatewayError UNSUPPORTED_MEDIA_TYPE, FILE_TOO_LARGE
     */
    receiveMedia: (part: FilePart, owner: UploadOwner, use?: MediaUse): Promise<ReceivedFile> =>
      receive(part, owner, (path) => inspectFile(acceptFile, { path, field: part.field, use })),

    /** Receives the input file of a batch, which is read later. @throws GatewayError FILE_TOO_LARGE, INVALID_REQUEST if it is empty */
    async receiveLines(part: FilePart, owner: UploadOwner): Promise<ReceivedFile> {
      const properties = { hasAlpha: false, convertedFrom: null, durationSeconds: null };
      const type = { contentType: linesContentType, extension: 'jsonl', name: 'JSONL' };
      const file = await receive(part, owner, () => Promise.resolve({ type, ...properties }));
      if (file.sizeBytes > 0) return file;
      await file.discard({ isUsed: false });
      throw fieldError('INVALID_REQUEST', part.field, 'must not be empty');
    },

    /**
     * Receives a recording. Errors name the field of the part.
     * @throws GatewayError INVALID_REQUEST if it is not a readable audio file, FILE_TOO_LARGE
     */
    receiveRecording: (part: FilePart, owner: UploadOwner): Promise<ReceivedFile> =>
      receive(part, owner, (path) => measureRecording(createFileSource(path), part.field)),
  };
}
export type RequestFiles = ReturnType<typeof createRequestFiles>;

/**
 * Reads the type of a file, and checks that it can be used.
 * @throws GatewayError UNSUPPORTED_MEDIA_TYPE, FILE_TOO_LARGE with the field
 */
async function inspectFile(
  acceptFile: AcceptFile,
  { path, field, use }: { path: string; field: string; use?: MediaUse | undefined },
): Promise<FileProperties> {
  try {
    const { type, convertedFrom, ...facts } = await acceptFile(path, use);
    const hasAlpha = facts.kind === 'picture' && facts.hasAlpha;
    return { type, hasAlpha, convertedFrom, durationSeconds: null };
  } catch (error) {
    if (!(error instanceof UnusableFile)) throw error;
    throw fieldError(error.code, field, error.message);
  }
}
