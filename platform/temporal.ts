/** Creates the Temporal client, reads task queues, registers search attributes, and sends the request context. */
import {
  type ConnectionLike,
  Client,
  type WorkflowClientInterceptor,
  type WorkflowSignalInput,
  type WorkflowStartInput,
} from '@temporalio/client';
import {
  context,
  propagation,
  ROOT_CONTEXT,
  SpanKind,
  trace,
  type Context,
  type Link,
} from '@opentelemetry/api';
import { defaultPayloadConverter, type Headers } from '@temporalio/common';
import type { TemporalConfig } from './config.ts';
import { correlation } from './logger.ts';
import { createDataConverter } from './payload-codec.ts';
import { inSpan } from './telemetry.ts';
import {
  requestContextHeader,
  signalContextHeader,
  type RequestContext,
} from '../domain/job-contract.ts';

/** Kind of task. A task queue has a separate backlog for each kind. */
export type TaskKind = 'workflow' | 'activity';

/** State of a task queue. */
export interface TaskQueueState {
  /** Identities of the workers that have polled within the last two minutes. */
  pollers: string[];
  backlog: number;
  backlogAgeSeconds: number;
}

/** Values of the enum `TaskQueueType` in temporal.api.enums.v1. */
const workflowQueueType = 1;
const activityQueueType = 2;
/**
 * Maximum time since the last poll of an active worker. A poll takes at most one minute, but the
 * server lists a poller for five minutes.
 */
const pollerAgeMaxMs = 120_000;
const describeTimeoutMs = 2500;

/** Reads the state of a task queue for one kind of task. */
export async function describeTaskQueue(
  connection: ConnectionLike,
  namespace: string,
  { queue, task }: { queue: string; task: TaskKind },
): Promise<TaskQueueState> {
  const response = await connection.withDeadline(Date.now() + describeTimeoutMs, () =>
    connection.workflowService.describeTaskQueue({
      namespace,
      taskQueue: { name: queue },
      // oxlint-disable-next-line typescript/no-unsafe-enum-assignment -- the enum is in a package of the SDK's own
      taskQueueType: task === 'workflow' ? workflowQueueType : activityQueueType,
      reportStats: true,
    }),
  );
  const oldestMs = Date.now() - pollerAgeMaxMs;
  const { stats, pollers } = response;
  return {
    pollers: (pollers ?? [])
      .filter(({ lastAccessTime }) => Number(lastAccessTime?.seconds ?? 0) * 1000 >= oldestMs)
      .map(({ identity }) => identity ?? ''),
    backlog: Number(stats?.approximateBacklogCount ?? 0),
    backlogAgeSeconds: Number(stats?.approximateBacklogAge?.seconds ?? 0),
  };
}

/**
 * Wraps a function so that its result is reused for `ageMaxMs` milliseconds. Probes and scrapes are
 * too frequent to read the state each time.
 */
export function cacheResult<Answer>(
  read: () => Promise<Answer>,
  ageMaxMs: number,
): () => Promise<Answer> {
  let readAtMs = Number.NEGATIVE_INFINITY;
  let result: Promise<Answer> | undefined;
  return () => {
    if (!result || performance.now() - readAtMs > ageMaxMs) {
      readAtMs = performance.now();
      result = read();
      // An error is not reused; the next call reads the state again.
      result.catch(() => (result = undefined));
    }
    return result;
  };
}

/**
 * Creates a Temporal client. It sends the request context in headers, and encrypts payloads if
 * encryption is configured.
 */
export function createTemporalClient(connection: ConnectionLike, config: TemporalConfig): Client {
  return new Client({
    connection,
    namespace: config.TEMPORAL_NAMESPACE,
    interceptors: { workflow: [requestContextInterceptor] },
    dataConverter: createDataConverter(config),
  });
}

/** Maximum wait for a response of the Temporal server, in milliseconds. */
const responseTimeoutMs = 10_000;

/**
 * Calls the Temporal server with a deadline. Without a deadline, the client would wait forever for
 * a server that does not respond.
 * @throws ServiceError if the server cannot be reached or does not respond
 */
export function callTemporal<Result>(client: Client, call: () => Promise<Result>): Promise<Result> {
  return client.withDeadline(Date.now() + responseTimeoutMs, call);
}

/** Trace context in the format of the OpenTelemetry propagator. */
type Carrier = Record<string, string>;

/** Values of the enum `IndexedValueType` in temporal.api.enums.v1. */
const indexedTypes = { KEYWORD: 2, KEYWORD_LIST: 7 } as const;

/**
 * Registers the search attributes that the namespace does not have yet.
 * @throws ServiceError if the server cannot be reached or does not respond in time
 */
export function registerSearchAttributes(
  connection: ConnectionLike,
  namespace: string,
  keys: readonly { name: string; type: keyof typeof indexedTypes }[],
): Promise<void> {
  return connection.withDeadline(Date.now() + responseTimeoutMs, async () => {
    const registered = await connection.operatorService.listSearchAttributes({ namespace });
    const missingKeys = keys.filter((key) => !(key.name in registered.customAttributes));
    if (missingKeys.length === 0) return;
    await connection.operatorService.addSearchAttributes({
      namespace,
      searchAttributes: Object.fromEntries(
        missingKeys.map(({ name, type }) => [name, indexedTypes[type]]),
      ),
    });
  });
}

/**
 * Workflow client interceptor. It adds the context of the current request to the headers of
 * workflow starts and signals. Temporal's own interceptors (@temporalio/interceptors-opentelemetry
 * 1.24) require version 1 of the OpenTelemetry SDK.
 */
const requestContextInterceptor: WorkflowClientInterceptor = {
  startWithDetails(input, next) {
    const { workflowType, options } = input;
    const attributes = { 'workflow.type': workflowType, 'workflow.id': options.workflowId };
    const name = `workflow.start ${workflowType}`;
    return inSpan({ name, kind: SpanKind.PRODUCER, attributes }, () =>
      next(addRequestContext(input)),
    );
  },
  signal: (input, next) => next(addTraceContext(input)),
};

/**
 * Adds the current trace context to a signal, so that the spans of the workflow's activities link
 * to the current trace.
 */
function addTraceContext(input: WorkflowSignalInput): WorkflowSignalInput {
  const carrier: Carrier = {};
  propagation.inject(context.active(), carrier);
  if (Object.keys(carrier).length === 0) return input;
  const header = defaultPayloadConverter.toPayload(carrier);
  return { ...input, headers: { ...input.headers, [signalContextHeader]: header } };
}

function addRequestContext(input: WorkflowStartInput): WorkflowStartInput {
  const { requestId } = correlation();
  const carrier: RequestContext = { ...(requestId !== undefined && { requestId }) };
  propagation.inject(context.active(), carrier);
  if (Object.keys(carrier).length === 0) return input;
  const header = defaultPayloadConverter.toPayload(carrier);
  return { ...input, headers: { ...input.headers, [requestContextHeader]: header } };
}

/** Returns a link to the trace of the last signal that the workflow received. */
function readLinks(headers: Headers): Link[] {
  const header = headers[signalContextHeader];
  if (!header) return [];
  const carrier = defaultPayloadConverter.fromPayload<Carrier>(header);
  const spanContext = trace.getSpanContext(propagation.extract(ROOT_CONTEXT, carrier));
  return spanContext ? [{ context: spanContext }] : [];
}

/**
 * Reads the request context from the headers of an activity. Returns the request id, and the parent
 * and links for the activity's spans. If the workflow was not started by a request, there is no
 * request id, and the parent is the root context.
 */
export function readRequestContext(headers: Headers): {
  requestId?: string;
  parent: Context;
  links: Link[];
} {
  const header = headers[requestContextHeader];
  const links = readLinks(headers);
  if (!header) return { parent: ROOT_CONTEXT, links };
  const { requestId, ...carrier } = defaultPayloadConverter.fromPayload<RequestContext>(header);
  const parent = propagation.extract(ROOT_CONTEXT, carrier);
  return { ...(requestId !== undefined && { requestId }), parent, links };
}
