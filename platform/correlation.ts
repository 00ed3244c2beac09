/**
 * Ids of the current request, activity or pass of the sweeper, which every log line contains.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import { context, ROOT_CONTEXT } from '@opentelemetry/api';

/** Ids of the current request, activity or pass. */
export interface Correlation {
  requestId?: string;
  /**
   * Organization of the caller; its queries have a fair share of the connections (query-limits.ts).
   */
  organizationId?: string;
  jobId?: string;
  workflowId?: string;
  /** W3C trace id, if the work is traced. */
  traceId?: string;
  /** W3C id of the outermost span of the work. */
  spanId?: string;
}

const scopes = new AsyncLocalStorage<Correlation>();

/** Returns the current ids; empty outside of a request, activity or pass. */
export function correlation(): Readonly<Correlation> {
  return scopes.getStore() ?? {};
}

/** Runs a function with new current ids. */
export function withCorrelation<Result>(ids: Correlation, work: () => Result): Result {
  return scopes.run(ids, work);
}

/** Adds ids to the current ids; does nothing outside of a request, activity or pass. */
export function correlate(ids: Correlation): void {
  const scope = scopes.getStore();
  if (scope) Object.assign(scope, ids);
}

/**
 * Runs a function without current ids, for work that one request starts but that belongs to all
 * requests, such as a timer or the end of a shared connection.
 */
export function withoutCorrelation<Result>(work: () => Result): Result {
  return scopes.exit(() => context.with(ROOT_CONTEXT, work));
}
