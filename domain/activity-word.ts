/** What a failed activity says: the words by which a workflow decides. */

/** A failure in words that cross into a workflow. */
export interface ActivityWord {
  /** Null for a timeout. */
  type: string | null;
  message: string;
  /** Whether the same would fail again. */
  final: boolean;
  /** When the provider wants to be asked again, if it said so. */
  retryAfterMs: number | null;
}

/** The fields of Temporal's `ApplicationFailure` that carry the words. */
interface FailureFields {
  type?: string | undefined | null;
  message: string;
  nonRetryable?: boolean | undefined | null;
  details?: unknown[] | undefined | null;
}

/** The words of an application failure. */
export function wordOf({ type, message, nonRetryable, details }: FailureFields): ActivityWord {
  const retryAfterMs = retryAfterOf(details?.[0]);
  return { type: type ?? null, message, final: nonRetryable ?? false, retryAfterMs };
}

function retryAfterOf(detail: unknown): number | null {
  const told = typeof detail === 'object' && detail !== null && 'retryAfterMs' in detail;
  return told && typeof detail.retryAfterMs === 'number' ? detail.retryAfterMs : null;
}
