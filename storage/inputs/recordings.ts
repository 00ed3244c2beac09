/** Finds the recordings that requests refer to, and reads their duration from the container. */
import { assert, fieldError } from '../../domain/errors.ts';
import type { Recording, RecordingSource } from '../../domain/draft-plan.ts';
import { createObjectSource, type ByteSource } from '../byte-source.ts';
import { readAccepted, UnusableFile, type MediaType } from '../media-types.ts';
import type { Storage } from '../storage.ts';
import type { RequestCopies } from './input-copies.ts';
import { type Inputs, listSecretParameters, parseStorageReference } from './inputs.ts';

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
      { organizationId, copies }: { organizationId: string; copies: RequestCopies },
    ): Promise<Recording> {
      const input = await inputs.resolve({ field, url: source }, organizationId);
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
  durationSeconds: number;
}

/**
 * Reads the type and the duration of a recording: those of its sound, also in a film.
 * @throws GatewayError INVALID_REQUEST or FILE_TOO_LARGE with the field
 */
export async function measureRecording(
  source: ByteSource,
  field: string,
): Promise<MeasuredRecording> {
  try {
    const facts = await readAccepted(source, 'recording');
    const durationSeconds = facts.kind === 'recording' ? (facts.audio?.durationSeconds ?? 0) : 0;
    return { type: facts.type, durationSeconds };
  } catch (error) {
    if (!(error instanceof UnusableFile)) throw error;
    throw fieldError('INVALID_REQUEST', field, error.message);
  }
}
