/**
 * Runs Studio jobs with activities that a test provides: the real workflow code on the run’s
 * Temporal server, and plain functions that return what the test needs and record their inputs.
 */
import { randomUUID } from 'node:crypto';
import { EventEmitter, once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { Context } from '@temporalio/activity';
import { WorkflowFailedError, type WorkflowHandle } from '@temporalio/client';
import { ApplicationFailure } from '@temporalio/common';
import { TestWorkflowEnvironment } from '@temporalio/testing';
import { Worker } from '@temporalio/worker';
import { expect, inject } from 'vitest';
import type { Activities } from '../../activities/index.ts';
import { describeWorkflow } from '../../studio/jobs/job-execution.ts';
import { newId } from '../../domain/ids.ts';
import {
  progressQuery,
  providerNotification,
  providerTaskQueue,
  searchAttributes,
  studioTaskQueue,
  webhookTaskQueue,
  type JobOutcome,
  type JobProgress,
} from '../../domain/job-contract.ts';
import {
  planVersion,
  type CallOutputs,
  type CallRoute,
  type JobPlan,
  type PlannedCall,
  type StoredArtifact,
} from '../../domain/job-plan.ts';
import { createLogger } from '../../platform/logger.ts';
import { registerSearchAttributes } from '../../platform/temporal.ts';
import { bundleWorkflows } from '../../worker/bundle.ts';
import { installTestRuntime } from './runtime.ts';

type Name = Exclude<keyof Activities, 'stopDelivery' | 'advance' | 'actOnJobs'>;

/** The activities that a test provides; the others succeed. */
export type Script = { [Verb in Name]?: Activities[Verb] };

/** A call of an activity: `where` is `local`, or the name of its task queue. */
export interface ActivityCall {
  name: Name;
  where: string;
  input: unknown;
}

/** The end of a job’s workflow. */
export interface JobEnd {
  /** The result; null if the workflow failed or was canceled. */
  outcome: JobOutcome | null;
  /** The type and message of the failure; type `CANCELED` for a canceled workflow. */
  failure: { type: string; message: string } | null;
  /** The steps in order, such as `reserve, submit on fal`: without a queue if the activity was local. */
  steps: string;
  /** Returns the progress, by a query that replays the workflow. */
  progress: () => Promise<JobProgress>;
  /** The Current Details of the workflow. */
  details: string;
  provider: string | undefined;
  requests: string[] | undefined;
  errorCode: string | undefined;
  billingState: string | undefined;
}

/** A running job. */
export interface ScriptedJob {
  plan: JobPlan;
  handle: WorkflowHandle;
  calls: ActivityCall[];
  /** Resolves when the activity was called this many times. */
  untilCalled: (name: Name, times?: number) => Promise<void>;
  /** Sends a provider notification for a call; by default about its accepted provider operation. */
  notify: (operationId?: string, callIndex?: number) => Promise<void>;
  /** Returns the inputs of an activity’s calls. */
  readInputs: <Verb extends Name>(name: Verb) => Parameters<Activities[Verb]>[0][];
  /** Waits for the end, and checks that Current Details mention no future step. */
  end: () => Promise<JobEnd>;
}

/** The environment of scripted jobs. */
export type ScriptedJobs = Awaited<ReturnType<typeof startScriptedJobs>>;

/** Phrases about current or future steps, which an ended job must not show. */
const unfinished =
  /next check|submitting|waiting|is working on it|reserving|assembling|charging|releasing|cancellation/;
const balance = { posted: 0, reserved: 0, available: 0 };

/** Returns an artifact of a call. */
export function makeArtifact(callIndex: number): StoredArtifact {
  return {
    storageKey: `o/j/${callIndex}-0.png`,
    contentType: 'image/png',
    sizeBytes: 1,
    sha256: '00',
    width: 1,
    height: 1,
    durationSeconds: null,
    hasAudio: null,
    contentCredentials: 'none',
  };
}

/** Returns the outputs of a call. */
export function makeOutputs(callIndex: number): CallOutputs {
  return { callIndex, artifacts: [makeArtifact(callIndex)], data: null, delivered: 1, error: null };
}

/** Activities that succeed, for those that a test does not provide. */
const successes: { [Verb in Name]: Activities[Verb] } = {
  reserve: async () => ({
    verdict: 'reserved',
    repeated: false,
    state: 'reserved',
    createdAt: new Date().toISOString(),
    balance,
    paused: [],
    settledBefore: null,
  }),
  reserveChat: async () => ({ verdict: 'reserved', reservedMicro: 1, isSettled: false }),
  answerChat: async () => {},
  answerItems: async () => ({ eventIds: [], retryInMs: null }),
  settleChat: async () => ({
    verdict: 'settled',
    status: 'completed',
    state: 'charged',
    chargedMicro: 1,
    error: null,
  }),
  submit: async ({ callIndex, route }) => ({
    kind: 'operation',
    operation: { id: `${route.provider}-${callIndex}` },
  }),
  adopt: async () => ({ kind: 'not_sent' }),
  awaitResume: async () => {},
  check: async () => ({ kind: 'ended' }),
  store: async ({ callIndex }) => makeOutputs(callIndex),
  cancel: async () => 'requested',
  completeStep: async ({ calls }) => ({ calls, texts: {} }),
  recordApproval: async ({ change }) => ({
    end: change.kind === 'end' ? change.end : null,
    webhookIds: [],
    jobUrl: 'https://gateway.example/console/jobs/job',
  }),
  assemble: async ({ callIndex }) => makeOutputs(callIndex),
  charge: async ({ chargeMicro }) => ({
    verdict: 'settled',
    state: 'charged',
    charged: chargeMicro,
    balance,
  }),
  release: async () => ({ verdict: 'settled', state: 'released', charged: 0, balance }),
  markVerifying: async () => {},
  attemptDelivery: async () => {},
};

/** Connects to the run’s Temporal server and starts workers. */
export async function startScriptedJobs() {
  installTestRuntime(createLogger('test', process.env['TEST_LOG_LEVEL'] ?? 'silent'));
  const address = inject('temporalAddress');
  const env = await TestWorkflowEnvironment.createFromExistingServer({ address });
  const namespace = 'default';
  await registerSearchAttributes(env.connection, namespace, Object.values(searchAttributes));
  const prefix = `${randomUUID().slice(0, 8)}-`;
  const scripts = new Map<string, { script: Script; calls: ActivityCall[]; news: EventEmitter }>();

  /** Returns the activity of this name for the job that calls it. */
  function activity(name: Name): (input: unknown) => Promise<unknown> {
    return async (input) => {
      const { isLocal, priority, taskQueue, workflowExecution } = Context.current().info;
      const [jobId = ''] = workflowExecution?.workflowId.split('-', 1) ?? [];
      const job = scripts.get(jobId);
      // Organizations, not keys or jobs, take turns in a queue.
      const isFair = isLocal || priority?.fairnessKey === 'org_scripted';
      if (!job || !isFair) throw ApplicationFailure.nonRetryable(`no script or turn for ${jobId}`);
      const where = isLocal ? 'local' : taskQueue.replace(prefix, '').replace('provider-', '');
      job.calls.push({ name, where, input });
      job.news.emit('call');
      const run = (job.script[name] ?? successes[name]) as (input: unknown) => Promise<unknown>;
      return run(input);
    };
  }
  const names = Object.keys(successes) as Name[];
  const activities = Object.fromEntries(names.map((name) => [name, activity(name)]));
  const interceptor = fileURLToPath(new URL('patient-workflows.ts', import.meta.url));
  const workflowBundle = await bundleWorkflows({ interceptorPaths: [interceptor] });
  const shared = { connection: env.nativeConnection, namespace, activities };
  const providerQueues = ['fal', 'openai'].map((name) => providerTaskQueue(prefix, name));
  const workers = await Promise.all([
    Worker.create({ ...shared, taskQueue: studioTaskQueue(prefix), workflowBundle }),
    ...[...providerQueues, webhookTaskQueue(prefix)].map((taskQueue) =>
      Worker.create({ ...shared, taskQueue }),
    ),
  ]);
  const running = Promise.all(workers.map((worker) => worker.run()));
  const jobs: ScriptedJob[] = [];

  /** Returns a route by one of the two providers that have workers. */
  const route = (provider: 'fal' | 'openai', changes: Partial<CallRoute> = {}): CallRoute => ({
    provider,
    taskQueue: providerTaskQueue(prefix, provider),
    providerEndpoint: 'draw',
    input: {},
    notifies: true,
    submitTimeoutMs: 1000,
    ...changes,
  });
  /** Returns a planned call whose first check comes after a moment. */
  const call = (changes: Partial<PlannedCall> = {}): PlannedCall => ({
    index: 0,
    routes: [route('fal')],
    output: { medium: 'image', format: null },
    meter: 'artifact',
    quantity: 1,
    unitPriceMicro: 1_000_000,
    required: false,
    firstCheckMs: 20,
    inputFrom: null,
    ...changes,
  });

  async function start(script: Script = {}, changes: Partial<JobPlan> = {}): Promise<ScriptedJob> {
    const planned = changes.calls ?? [call()];
    const plan: JobPlan = {
      planVersion,
      jobId: newId('job'),
      organizationId: 'org_scripted',
      keyId: 'key_scripted',
      requestId: 'request',
      type: 'imageGenerate',
      model: 'model',
      priceMicro: planned.reduce((sum, one) => sum + one.quantity * one.unitPriceMicro, 0),
      request: {},
      calls: planned,
      assembly: null,
      deadlineAt: new Date().toISOString(),
      deadlineMs: 60_000,
      typicalSeconds: null,
      webhook: null,
      outcomeWaitMs: 60_000,
      reservationTtlMs: 600_000,
      ...changes,
    };
    const { jobId } = plan;
    const calls: ActivityCall[] = [];
    const news = new EventEmitter();
    scripts.set(jobId, { script, calls, news });
    const { typedSearchAttributes } = describeWorkflow(plan);
    const options = { workflowId: jobId, taskQueue: studioTaskQueue(prefix), args: [plan] };
    const handle = await env.client.workflow.start(plan.type, {
      ...options,
      typedSearchAttributes,
      // A workflow task that times out on a busy machine repeats its local activities.
      workflowTaskTimeout: '1 minute',
    });
    const job: ScriptedJob = {
      plan,
      handle,
      calls,
      async untilCalled(name, times = 1) {
        while (calls.filter((made) => made.name === name).length < times) await once(news, 'call');
      },
      notify: (operationId = 'fal-0', callIndex = 0) =>
        handle.signal(providerNotification, { callIndex, operationId }),
      readInputs: <Verb extends Name>(name: Verb) =>
        calls
          .filter((made) => made.name === name)
          .map(({ input }) => input as Parameters<Activities[Verb]>[0]),
      end: () => awaitEnd(job),
    };
    jobs.push(job);
    return job;
  }

  return {
    webhookQueue: webhookTaskQueue(prefix),
    route,
    call,
    start,
    /** Starts a job and waits for its end. */
    run: async (script?: Script, changes?: Partial<JobPlan>): Promise<JobEnd> =>
      (await start(script, changes)).end(),
    jobs,
    async close(): Promise<void> {
      for (const worker of workers) {
        if (worker.getState() === 'RUNNING') worker.shutdown();
      }
      await running;
      await env.teardown();
    },
  };
}

async function awaitEnd({ handle, calls }: ScriptedJob): Promise<JobEnd> {
  let outcome: JobOutcome | null = null;
  let failure: JobEnd['failure'] = null;
  try {
    outcome = (await handle.result()) as JobOutcome;
  } catch (error) {
    if (!(error instanceof WorkflowFailedError) || !error.cause) throw error;
    const { cause } = error;
    const type = cause instanceof ApplicationFailure ? (cause.type ?? '') : 'CANCELED';
    failure = { type, message: cause.message };
  }
  const metadata = '__temporal_workflow_metadata';
  const { currentDetails: details } = await handle.query<{ currentDetails: string }>(metadata);
  const { typedSearchAttributes: shown } = await handle.describe();
  expect(details).not.toMatch(unfinished);
  return {
    outcome,
    failure,
    steps: calls
      .map(({ name, where }) => (where === 'local' ? name : `${name} on ${where}`))
      .join(', '),
    progress: () => handle.query(progressQuery),
    details,
    provider: shown.get(searchAttributes.provider),
    requests: shown.get(searchAttributes.providerRequestId),
    errorCode: shown.get(searchAttributes.errorCode),
    billingState: shown.get(searchAttributes.billingState),
  };
}

/**
 * Returns a function with one result per call: functions are called, errors thrown, other values
 * returned; the last repeats.
 */
export function respond<Input, Outcome>(
  ...answers: (Outcome | Error | ((input: Input) => Promise<Outcome>))[]
): (input: Input) => Promise<Outcome> {
  let next = 0;
  return async (input) => {
    const answer = answers[Math.min(next, answers.length - 1)];
    next += 1;
    if (answer instanceof Error) throw answer;
    return typeof answer === 'function'
      ? (answer as (input: Input) => Promise<Outcome>)(input)
      : (answer as Outcome);
  };
}
