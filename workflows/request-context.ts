/**
 * Passes the request context and the trace of the last signal to activities and child workflows.
 * Neither changes a command, so a history without them replays, too.
 */
import type { WorkflowInterceptorsFactory } from '@temporalio/workflow';
import { requestContextHeader, signalContextHeader } from '../domain/job-contract.ts';

type Interceptors = ReturnType<WorkflowInterceptorsFactory>;
type Inbound = NonNullable<Interceptors['inbound']>[number];
type Outbound = NonNullable<Interceptors['outbound']>[number];
type Header = Parameters<NonNullable<Inbound['execute']>>[0]['headers'];

/** Workflow interceptors. The SDK requires this export name. */
export const interceptors: WorkflowInterceptorsFactory = () => {
  let forwardedHeaders: Header = {};
  const inbound: Inbound = {
    execute(input, next) {
      const header = input.headers[requestContextHeader];
      if (header) forwardedHeaders = { ...forwardedHeaders, [requestContextHeader]: header };
      return next(input);
    },
    handleSignal(input, next) {
      const header = input.headers[signalContextHeader];
      if (header) forwardedHeaders = { ...forwardedHeaders, [signalContextHeader]: header };
      return next(input);
    },
  };
  const outbound: Outbound = {
    scheduleActivity: (input, next) =>
      next({ ...input, headers: { ...input.headers, ...forwardedHeaders } }),
    scheduleLocalActivity: (input, next) =>
      next({ ...input, headers: { ...input.headers, ...forwardedHeaders } }),
    startChildWorkflowExecution: (input, next) =>
      next({ ...input, headers: { ...input.headers, ...forwardedHeaders } }),
  };
  return { inbound: [inbound], outbound: [outbound] };
};
