/** Context of a request in a Temporal header for the job's workflow and its activities. */

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
