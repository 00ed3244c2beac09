/** What the sandbox has seen since it started, for tests that assert "exactly one paid submit". */
export interface Counters {
  submitsAccepted: number;
  submitsRefused: number;
  unauthorized: number;
  statusPolls: number;
  resultFetches: number;
  cancels: number;
  fileFetches: number;
  /** Deliveries answered with 2xx. */
  webhooksSent: number;
  /** Delivery tries that were not. */
  webhooksFailed: number;
  /** Chat requests that were answered, also in part. */
  chatCalls: number;
  chatCallsRefused: number;
  /** Of the answered, those whose caller hung up first. */
  chatCallsLeft: number;
}

/** All zero. */
export function createCounters(): Counters {
  return {
    submitsAccepted: 0,
    submitsRefused: 0,
    unauthorized: 0,
    statusPolls: 0,
    resultFetches: 0,
    cancels: 0,
    fileFetches: 0,
    webhooksSent: 0,
    webhooksFailed: 0,
    chatCalls: 0,
    chatCallsRefused: 0,
    chatCallsLeft: 0,
  };
}
