/** What is known of each provider as a partner: how it answers, and how long a call may take it. */

interface ProviderTraits {
  /**
   * Whether it queues work and notifies its end: then an unanswered submit may yet be named by a
   * notification. A provider that answers with the result itself never tells later.
   */
  notifies: boolean;
  /** Milliseconds a submit may take before its outcome counts as unknown. */
  submitTimeoutMs: number;
}

/** Traits by provider name; the adapters are in activities/providers/. */
export const providerTraits = {
  fal: { notifies: true, submitTimeoutMs: 45_000 },
  openai: { notifies: false, submitTimeoutMs: 300_000 },
  elevenlabs: { notifies: false, submitTimeoutMs: 300_000 },
} as const satisfies Record<string, ProviderTraits>;

/** A provider that we have an adapter for. */
export type ProviderName = keyof typeof providerTraits;
