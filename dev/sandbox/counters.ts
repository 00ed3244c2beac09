/** Creates counters that start at zero. Tests use them to check, for example, that a job was submitted exactly once. */
export const createCounters = () => ({
  submitsAccepted: 0,
  submitsRejected: 0,
  unauthorized: 0,
  statusPolls: 0,
  resultFetches: 0,
  cancels: 0,
  fileFetches: 0,
  /** Webhook deliveries that received a 2xx response. */
  webhooksSent: 0,
  /** Webhook deliveries that received another response or none. */
  webhooksFailed: 0,
  /** Chat requests that received a response, complete or partial. */
  chatCalls: 0,
  chatCallsRejected: 0,
  /** Chat requests whose caller disconnected before the end of the response. */
  chatCallsLeft: 0,
});

/** Counters of the sandbox. */
export type Counters = ReturnType<typeof createCounters>;
