/**
 * Failure converter for encrypted payloads. It puts the messages and stack traces of failures into
 * payloads, which the codec encrypts. The SDK loads this file by its path
 * (platform/payload-codec.ts) and bundles it with the workflows.
 */
import { DefaultFailureConverter } from '@temporalio/common';

/** Failure converter for encrypted payloads. The SDK requires the name of this export. */
export const failureConverter = new DefaultFailureConverter({ encodeCommonAttributes: true });
