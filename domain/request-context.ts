/**
 * Context of a request that passes from the API to the job's workflow and its activities as a Temporal header.
 * Providers never receive it, and it is not an input of the workflow.
 */

/** Name of the Temporal header. */
export const requestContextHeader = 'request-context';

/** Header of a signal with the W3C trace context of its sender. */
export const signalContextHeader = 'signal-context';

/** Its content, JSON. */
export interface RequestContext {
  /** Id of the request that started the job. */
  requestId?: string;
  /** W3C trace context of the span that started the workflow; absent without tracing. */
  traceparent?: string;
}
