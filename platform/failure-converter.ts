/**
 * The failure converter of workers and workflows whose payloads are encrypted: messages and stack traces
 * of failures become payloads too, which the codec then seals. Without it they stay in the clear. The
 * SDK loads this file by its path (platform/payload-codec.ts) and bundles it with the workflows.
 */
import { DefaultFailureConverter } from '@temporalio/common';

/** Under the name that the SDK looks for. */
export const failureConverter = new DefaultFailureConverter({ encodeCommonAttributes: true });
