/**
 * Context of a request, which the API sends to the job's workflow and its activities in a Temporal
 * header. Providers never receive it, and it is not an input of the workflow.
 */

/** Name of the Temporal header with the context. */
export const requestContextHeader = 'request-context';

/** Name of the header of a signal with the W3C trace context of its sender. */
export const signalContextHeader = 'signal-context';

/** Content of the header with the context, as JSON. */
export interface RequestContext {
  /** Id of the request that started the job. */
  requestId?: string;
  /** W3C trace context of the span that started the workflow; absent without tracing. */
  traceparent?: string;
}
