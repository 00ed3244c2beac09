/** Context of a request, passed to the job's workflow and its activities in a Temporal header. */

/** Name of the Temporal header with the request context. */
export const requestContextHeader = 'request-context';

/** Name of the Temporal header with the W3C trace context of a signal's sender. */
export const signalContextHeader = 'signal-context';

/** Request context: the content of the header, as JSON. */
export interface RequestContext {
  /** Id of the request that started the job. */
  requestId?: string;
  /** W3C trace context of the span that started the workflow; absent if tracing is off. */
  traceparent?: string;
}
