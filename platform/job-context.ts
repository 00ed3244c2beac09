/** Hands the ids and the trace of a request over to the workflow that it starts (domain/request-context.ts). */
import type { WorkflowClientInterceptor, WorkflowStartInput } from '@temporalio/client';
import { defaultPayloadConverter, type Headers } from '@temporalio/common';
import { requestContextHeader, type RequestContext } from '../domain/request-context.ts';
import { correlation } from './correlation.ts';
import type { Tracing } from './telemetry.ts';

/** Puts the context of the current request on workflows that a client starts. */
export function handOverContext(tracing: Tracing): WorkflowClientInterceptor {
  async function withHeader<Result>(
    input: WorkflowStartInput,
    start: (input: WorkflowStartInput) => Promise<Result>,
  ): Promise<Result> {
    const { workflowType, options } = input;
    return tracing.inSpan(
      {
        name: `workflow.start ${workflowType}`,
        kind: 'producer',
        attributes: { 'workflow.type': workflowType, 'workflow.id': options.workflowId },
      },
      () => start(withContext(input, tracing)),
    );
  }
  return { startWithDetails: (input, next) => withHeader(input, next) };
}

function withContext(input: WorkflowStartInput, tracing: Tracing): WorkflowStartInput {
  const { requestId } = correlation();
  const traceparent = tracing.traceparent();
  if (requestId === undefined && traceparent === undefined) return input;
  const context: RequestContext = {
    ...(requestId !== undefined && { requestId }),
    ...(traceparent !== undefined && { traceparent }),
  };
  const header = defaultPayloadConverter.toPayload(context);
  return { ...input, headers: { ...input.headers, [requestContextHeader]: header } };
}

/** The context that an activity was given; empty for work that no request began. */
export function contextOf(headers: Headers): RequestContext {
  const header = headers[requestContextHeader];
  if (!header) return {};
  return defaultPayloadConverter.fromPayload<RequestContext>(header);
}
