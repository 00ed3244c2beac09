/** Correlation ids of the current request, activity or sweeper pass, added to every log line. */
import { AsyncLocalStorage } from 'node:async_hooks';
import { context, ROOT_CONTEXT } from '@opentelemetry/api';

/** Ids that correlate log lines. */
export interface CorrelationIds {
  requestId?: string;
  /** Organization of the caller; it gets a fair share of database connections (query-limits.ts). */
  organizationId?: string;
  jobId?: string;
  workflowId?: string;
  /** W3C trace id, if the request, activity or pass of the sweeper is traced. */
  traceId?: string;
  /** W3C id of the outermost span of the request, activity or pass of the sweeper. */
  spanId?: string;
}

const scopes = new AsyncLocalStorage<CorrelationIds>();

/**
 * Returns the current correlation ids. The result is empty outside a request, an activity or a pass
 * of the sweeper.
 */
export function correlation(): Readonly<CorrelationIds> {
  return scopes.getStore() ?? {};
}

/** Runs a function with these correlation ids. The previous ids apply again afterwards. */
export function withCorrelation<Result>(ids: CorrelationIds, work: () => Result): Result {
  return scopes.run(ids, work);
}

/**
 * Adds ids to the current correlation ids. Does nothing outside a request, an activity or a pass of
 * the sweeper.
 */
export function correlate(ids: CorrelationIds): void {
  const scope = scopes.getStore();
  if (scope) Object.assign(scope, ids);
}

/**
 * Runs a function without correlation ids. Use it for work that starts during a request but does
 * not belong to it, such as a timer or the end of a shared connection.
 */
export function withoutCorrelation<Result>(work: () => Result): Result {
  return scopes.exit(() => context.with(ROOT_CONTEXT, work));
}
