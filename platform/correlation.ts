/**
 * The ids that belong to what is being done: set once by whoever begins it (a request, an activity, a
 * pass of the sweeper), found on every log line and by every span that comes of it.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import type { Context } from '@opentelemetry/api';

/** Ids of the work under way. */
export interface Correlation {
  requestId?: string;
  jobId?: string;
  workflowId?: string;
  /** W3C trace id, while the work is traced. */
  traceId?: string;
}

interface Scope {
  /** Shared by all that is done in one piece of work, so that an id learnt late is on its last line too. */
  ids: Correlation;
  /** The tracer's own handle of the current span. */
  span: Context | undefined;
}

const scopes = new AsyncLocalStorage<Scope>();

/** The ids of the work under way; empty outside of any. */
export function correlation(): Readonly<Correlation> {
  return scopes.getStore()?.ids ?? {};
}

/** Begins a piece of work with ids of its own. */
export function withCorrelation<Result>(ids: Correlation, work: () => Result): Result {
  return scopes.run({ ids, span: scopes.getStore()?.span }, work);
}

/** Adds ids to the work under way; outside of any it does nothing. */
export function correlate(ids: Correlation): void {
  const scope = scopes.getStore();
  if (scope) Object.assign(scope.ids, ids);
}

/**
 * Runs what concerns no piece of work in particular, although one happened to cause it: a shared
 * connection that broke, a timer over all that runs.
 */
export function withoutCorrelation<Result>(work: () => Result): Result {
  return scopes.exit(work);
}

/** The tracer's handle of the current span. */
export function currentSpan(): Context | undefined {
  return scopes.getStore()?.span;
}

/** Runs work inside a span; its ids stay those of the work it is part of. */
export function withSpan<Result>(span: Context, work: () => Result): Result {
  return scopes.run({ ids: scopes.getStore()?.ids ?? {}, span }, work);
}
