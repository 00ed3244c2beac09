/** Context of a request, passed to the job's workflow and activities in a Temporal header. */

/** Name of the Temporal header that carries the request context. */
export const requestContextHeader = 'request-context';

/** Name of the Temporal header that carries the W3C trace context of a signal's sender. */
export const signalContextHeader = 'signal-context';

/** Context of the request that started a job, as JSON in the Temporal header. */
export interface RequestContext {
  /** Id of the request that started the job. */
  requestId?: string;
  /** W3C trace context of the span that started the workflow; absent if tracing is off. */
  traceparent?: string;
}
