/**
 * What travels with a job from the request that made it to everything done for it, as a header of its
 * workflow and of each activity: never seen by a provider, no input of the workflow.
 */

/** Name of the Temporal header. */
export const requestContextHeader = 'request-context';

/** Its content, JSON. */
export interface RequestContext {
  /** The request that made the job. */
  requestId?: string;
  /** W3C trace context of the span that started the workflow; absent without tracing. */
  traceparent?: string;
}
