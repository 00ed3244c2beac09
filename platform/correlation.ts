/**
 * Ids of the current work: set by a request, an activity or a pass of the sweeper, and added to
 * each log line.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import { context, ROOT_CONTEXT } from '@opentelemetry/api';

/** Ids of the current work. */
export interface Correlation {
  requestId?: string;
  /** Organization of the caller; it takes turns with others at the database (database.ts). */
  organizationId?: string;
  jobId?: string;
  workflowId?: string;
  /** W3C trace id, if the work is traced. */
  traceId?: string;
  /** W3C id of the outermost span of the work. */
  spanId?: string;
}

const scopes = new AsyncLocalStorage<Correlation>();

/** Returns the ids of the current work; empty outside of any. */
export function correlation(): Readonly<Correlation> {
  return scopes.getStore() ?? {};
}

/** Runs a function with ids of its own. */
export function withCorrelation<Result>(ids: Correlation, work: () => Result): Result {
  return scopes.run(ids, work);
}

/** Adds ids to the current work; outside of any it does nothing. */
export function correlate(ids: Correlation): void {
  const scope = scopes.getStore();
  if (scope) Object.assign(scope, ids);
}

/**
 * Runs work without ids that one request happens to cause but that concerns all, such as a broken
 * shared connection or a timer.
 */
export function withoutCorrelation<Result>(work: () => Result): Result {
  return scopes.exit(() => context.with(ROOT_CONTEXT, work));
}
