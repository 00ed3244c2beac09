/** The ids of the work under way: set by a request, an activity or a pass of the sweeper, and added to each log line. */
import { AsyncLocalStorage } from 'node:async_hooks';
import { context, ROOT_CONTEXT } from '@opentelemetry/api';

/** Ids of the work under way. */
export interface Correlation {
  requestId?: string;
  jobId?: string;
  workflowId?: string;
  /** W3C trace id, while the work is traced. */
  traceId?: string;
}

const scopes = new AsyncLocalStorage<Correlation>();

/** Returns the ids of the work under way; empty outside of any. */
export function correlation(): Readonly<Correlation> {
  return scopes.getStore() ?? {};
}

/** Begins a piece of work with ids of its own. */
export function withCorrelation<Result>(ids: Correlation, work: () => Result): Result {
  return scopes.run(ids, work);
}

/** Adds ids to the work under way; outside of any it does nothing. */
export function correlate(ids: Correlation): void {
  const scope = scopes.getStore();
  if (scope) Object.assign(scope, ids);
}

/**
 * Runs work that belongs to no request in particular, although one happened to cause it: a shared
 * connection that broke, a timer over all that runs.
 */
export function withoutCorrelation<Result>(work: () => Result): Result {
  return scopes.exit(() => context.with(ROOT_CONTEXT, work));
}
