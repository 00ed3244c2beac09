/** Finds the recordings that requests refer to, and reads their duration from the container. */
import { fieldError } from '../../domain/errors.ts';
import type { Recording, RecordingSource } from '../../studio/capability.ts';
import { createObjectSource, type ByteSource } from '../byte-source.ts';
import { readContainer } from '../container.ts';
import { findMediaType } from '../media-types.ts';
import { untypedExtension, type Storage } from '../storage.ts';
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
      const { durationSeconds } = await measureRecording(
        createObjectSource(storage, storageKey),
        field,
      );
      return { kind: 'file', storageKey, durationSeconds };
    },
  };
}
export type Recordings = ReturnType<typeof createRecordings>;

/**
 * Reads the file extension and the duration (in seconds) of a recording.
 * @throws GatewayError INVALID_REQUEST with the field
 */
export async function measureRecording(
  source: ByteSource,
  field: string,
): Promise<{ extension: string; durationSeconds: number }> {
  const container = await readContainer(source);
  if (!container?.hasAudio || !(container.durationSeconds > 0)) {
    throw fieldError('INVALID_REQUEST', field, 'is not a readable audio file');
  }
  const { mimeType, durationSeconds } = container;
  const extension = findMediaType(mimeType)?.extension ?? untypedExtension;
  return { extension, durationSeconds };
}
