/** What the sandbox has seen since it started, for tests that assert "exactly one paid submit". */
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
  /** Delivery tries that were not. */
  webhooksFailed: 0,
  /** Chat requests that were answered, also in part. */
  chatCalls: 0,
  chatCallsRefused: 0,
  /** Of the answered, those whose caller hung up first. */
  chatCallsLeft: 0,
});

/** Counters of the sandbox. */
export type Counters = ReturnType<typeof createCounters>;
