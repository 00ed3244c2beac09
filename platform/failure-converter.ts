/**
 * Failure converter for encrypted payloads: puts messages and stack traces of failures into
 * payloads, which the codec encrypts. The SDK loads this file by its path
 * (platform/payload-codec.ts) and bundles it with the workflows.
 */
import { DefaultFailureConverter } from '@temporalio/common';

/** Failure converter; the SDK requires this export name. */
export const failureConverter = new DefaultFailureConverter({ encodeCommonAttributes: true });
