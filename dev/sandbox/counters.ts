/** Counters since the start of the sandbox, for tests that expect exactly one paid submit. */
export const createCounters = () => ({
  submitsAccepted: 0,
  submitsRefused: 0,
  unauthorized: 0,
  statusPolls: 0,
  resultFetches: 0,
  cancels: 0,
  fileFetches: 0,
  /** Deliveries answered with 2xx. */
  webhooksSent: 0,
  /** Attempts with another response. */
  webhooksFailed: 0,
  /** Chat requests with a response, also a partial one. */
  chatCalls: 0,
  chatCallsRefused: 0,
  /** Those whose caller disconnected before the end. */
  chatCallsLeft: 0,
});

/** Counters of the sandbox. */
export type Counters = ReturnType<typeof createCounters>;
