/** Finds the recordings that requests refer to, and reads their duration from the container. */
import { fieldError } from '../../domain/errors.ts';
import type { Recording, RecordingSource } from '../../studio/capability.ts';
import { createObjectSource, type ByteSource } from '../byte-source.ts';
import { readAccepted, UnusableFile } from '../media-rules.ts';
import type { MediaType } from '../media-types.ts';
import type { Storage } from '../storage.ts';
import type { Inputs } from './inputs.ts';

interface RecordingsDeps {
  storage: Storage;
  inputs: Inputs;
}

/** Creates the function that finds a recording by its URL or file id. */
export function createRecordings({ storage, inputs }: RecordingsDeps) {
  return {
    /**
     * Checks the recording that a request refers to. Measures it if it is a stored file of the
     * organization; does not fetch URLs of other servers.
     * @throws GatewayError INVALID_INPUT_URL with the field; INVALID_REQUEST if the stored file is
     * not readable audio
     */
    async find({ field, source }: RecordingSource, organizationId: string): Promise<Recording> {
      const input = await inputs.resolve({ field, url: source }, organizationId);
      if (input.kind === 'url') return input;
      const { storageKey } = input;
      const object = createObjectSource(storage, storageKey);
      const sizeBytes = await object.size();
      return { kind: 'file', storageKey, sizeBytes, ...(await measureRecording(object, field)) };
    },
  };
}
export type Recordings = ReturnType<typeof createRecordings>;

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
