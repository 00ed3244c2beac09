/**
 * Failure converter of workers and workflows with encrypted payloads: messages and stack traces of
 * failures become payloads, which the codec encrypts. The SDK loads this file by its path
 * (platform/payload-codec.ts) and bundles it with the workflows.
 */
import { DefaultFailureConverter } from '@temporalio/common';

/** Export name that the SDK expects. */
export const failureConverter = new DefaultFailureConverter({ encodeCommonAttributes: true });
