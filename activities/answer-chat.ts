/**
 * Activities of a chat job: `reserveChat`, `answerChat` and `settleChat`. The answer is stored in
 * pieces as it arrives, and its end in the record of its call, which is sent at most once.
 */
import { randomUUID } from 'node:crypto';
import { Context } from '@temporalio/activity';
import {
  ApplicationFailure,
  ApplicationFailureCategory,
  CancelledFailure,
} from '@temporalio/common';
import pRetry from 'p-retry';
import { formatWholeAnswer } from '../chat/chat-job-answers.ts';
import { answerEnd, findPrompt, type AnswerEnd, type ChatJobOrder } from '../chat/chat-jobs.ts';
import type { ChatJobs } from '../chat/chat-jobs.ts';
import type { ChatLedger, ChatSettle } from '../chat/chat-ledger.ts';
import { completeOrder, type ChatOrder } from '../chat/orders.ts';
import type { StreamStep } from '../chat/protocols/protocol.ts';
import type { AnsweringChat } from '../chat/chat-telemetry.ts';
import { assert, errorTable, GatewayError, type ErrorCode } from '../domain/errors.ts';
import type { Rejection } from '../domain/credits.ts';
import type { CallOutputs, JobPlan } from '../domain/job-plan.ts';
import { asJson } from '../domain/json.ts';
import type { Settlement } from '../ledger/ledger.ts';
import { databaseRetries } from '../platform/database.ts';
import { correlate, type Logger } from '../platform/logger.ts';
import type { Shares } from '../platform/shares.ts';
import type { CallRecords } from '../providers/call-records.ts';
import type { Inputs } from '../storage/inputs/inputs.ts';
import type { Storage } from '../storage/storage.ts';
import type { JobReads } from '../studio/jobs/job-reads.ts';
import { attempt, enterSlot } from './attempt.ts';
import type { ChatService } from './chat.ts';
import { beginCall, whileRecorded } from './submit.ts';

/** Services of the activities. */
export interface ChatJobDeps {
  chat: ChatService;
  chatJobs: ChatJobs;
  chatLedger: ChatLedger;
  records: CallRecords;
  reads: Pick<JobReads, 'read'>;
  inputs: Inputs;
  storage: Storage;
  /** Slots of this process for simultaneous answers. Organizations share them. */
  chatSlots: Shares;
  logger: Logger;
}

type SettleDeps = Pick<ChatJobDeps, 'chatJobs' | 'chatLedger' | 'records' | 'reads' | 'logger'>;

/** Result of `reserveChat`. `isSettled`: an earlier run of the workflow has settled the job. */
export type ChatReserveOutcome =
  | Rejection
  | { verdict: 'reserved'; reservedMicro: number; isSettled: boolean };

/** Error with which a job ended. */
type JobError = { code: ErrorCode; message: string };

/** Input of `settleChat`. `error`: the reason why the answer has not ended; null if it has. */
export interface ChatToSettle {
  jobId: string;
  organizationId: string;
  error: JobError | null;
}

/** Result of `settleChat`. */
export type ChatSettlement =
  | { verdict: 'not_reserved' }
  | {
      verdict: 'settled' | 'already_settled';
      status: 'completed' | 'failed' | 'canceled';
      state: 'charged' | 'released';
      chargedMicro: number;
      error: JobError | null;
    };

/** Builds the order of a chat job, whose provider always streams. */
async function buildJobOrder(
  services: Pick<ChatJobDeps, 'inputs' | 'storage'>,
  { keyId, requestId, organizationId }: JobPlan,
  { request, models }: ChatJobOrder,
): Promise<ChatOrder> {
  const caller = { organizationId, keyId };
  const streamed = { ...request, stream: true };
  return completeOrder({ caller, requestId, request: streamed }, models, services);
}

/** Reserves the credits of a chat job, and stores the job. A repeat changes nothing. */
export async function reserveChat(deps: ChatJobDeps, plan: JobPlan): Promise<ChatReserveOutcome> {
  const { request, ...planWithoutRequest } = plan;
  correlate({ requestId: plan.requestId });
  const stored = await deps.chatJobs.readOrder(plan.jobId);
  if (!stored)
    throw ApplicationFailure.nonRetryable('the request of the chat job was deleted', 'JOB_LOST');
  const order = await buildJobOrder(deps, plan, stored);
  const prompt = findPrompt(stored.request);
  const result = await deps.chat.reserveJob(order, {
    id: plan.jobId,
    ttlMs: plan.reservationTtlMs,
    job: {
      keyId: plan.keyId,
      type: plan.type,
      model: plan.model,
      provider: order.models[0].provider,
      requestId: plan.requestId,
      deadlineAt: plan.deadlineAt,
      request: { ...request, ...(prompt !== null && { prompt }) },
      plan: asJson(planWithoutRequest),
      ...(plan.metadata && { metadata: plan.metadata }),
    },
  });
  deps.logger.info({ jobId: plan.jobId, verdict: result.verdict }, 'reservation.decided');
  assert(result.verdict !== 'claim_lost', 'a chat job has no claim');
  if (result.verdict !== 'reserved') return result;
  const { amount: reservedMicro, state } = result;
  return { verdict: 'reserved', reservedMicro, isSettled: state !== 'reserved' };
}

/** Maximum number of chat jobs that a worker answers at the same time; the others wait in Temporal. */
export const chatAnswersMax = 200;
/** Interval of the heartbeats of an answer, whose responses report that its job is canceled. */
export const chatHeartbeatMs = 2000;

/** Input of `answerChat`. */
export interface ChatToAnswer {
  plan: JobPlan;
  reservedMicro: number;
  /** Milliseconds until the deadline of the job. */
  remainingMs: number;
}

/**
 * Answers a chat job: calls the provider, unless an earlier attempt may have called it, and records the
 * answer. Waits while an earlier attempt does that.
 */
export function answerChat(deps: ChatJobDeps, task: ChatToAnswer): Promise<void> {
  const { plan, reservedMicro } = task;
  const call = { jobId: plan.jobId, callIndex: 0 };
  correlate({ organizationId: plan.organizationId });
  const answer = async (): Promise<void> => {
    const stored = await deps.chatJobs.readOrder(plan.jobId);
    if (!stored) return;
    const order = await buildJobOrder(deps, plan, stored);
    const [{ provider, id: providerEndpoint }] = order.models;
    const begun = await beginCall(deps.records, {
      ...call,
      routeIndex: 0,
      provider,
      providerEndpoint,
      senderId: randomUUID(),
    });
    if (begun?.verdict === 'paused') throw pausedFailure(provider);
    if (begun?.verdict !== 'send') return;
    await whileRecorded(deps.records, call, async () => {
      const end = await runAnswer(deps, order, { task, reservedMicro });
      const { error } = end;
      const outputs = { callIndex: 0, artifacts: [], data: asJson(end), delivered: 1, error };
      await pRetry(() => deps.records.markAnswered({ ...call, outputs }), databaseRetries);
    });
  };
  const run = async (): Promise<void> => {
    const release = await enterSlot(deps.chatSlots, plan.organizationId);
    try {
      await answer();
    } finally {
      release();
    }
  };
  return attempt(run, { heartbeatMs: chatHeartbeatMs });
}

function pausedFailure(provider: string): ApplicationFailure {
  return ApplicationFailure.create({
    message: `the provider ${provider} is paused`,
    type: 'PROVIDER_PAUSED',
    category: ApplicationFailureCategory.BENIGN,
    nextRetryDelay: '5 seconds',
  });
}

/** Runs the call of a chat job, stores its answer, and returns its end. */
async function runAnswer(
  deps: ChatJobDeps,
  order: ChatOrder,
  { task: { plan, remainingMs }, reservedMicro }: { task: ChatToAnswer; reservedMicro: number },
): Promise<AnswerEnd> {
  const { jobId } = plan;
  let settlement: ChatSettle | null = null;
  const chat = deps.chat.answerReserved(order, {
    id: jobId,
    reservedMicro,
    settle(settled) {
      settlement = settled;
      return Promise.resolve(settled.amountMicro);
    },
  });
  const stops = watchStops(chat, remainingMs);
  const writer = createPieceWriter((piece) =>
    deps.chatJobs.append(jobId, { ...piece, servedBy: chat.run.servedBy }),
  );
  let error: JobError | null = null;
  try {
    await chat.stream((steps) => writer.add(steps));
  } catch (failure) {
    error = stops.error ?? toJobError(deps.logger, failure);
  }
  stops.end();
  await writer.close();
  assert(settlement, 'the answer has ended without a settlement');
  const { tried, streamMetadata } = chat.run;
  return { settlement, tried, ...streamMetadata, error, endedAtMs: Date.now() };
}

function toJobError(logger: Logger, failure: unknown): JobError {
  if (failure instanceof GatewayError) return { code: failure.code, message: failure.message };
  logger.error({ error: failure }, 'chat.answer_failed');
  return describe('Internal server error');
}

const describe = (code: ErrorCode): JobError => ({ code, message: errorTable[code].message });

/** Error of an answer whose worker stopped. It may be charged, so the usual message would be wrong. */
const interrupted = (code: 'JOB_LOST' | 'OUTCOME_UNKNOWN'): JobError => ({
  code,
  message: 'The worker that received the answer stopped. What was delivered is charged.',
});

/** Stops the answer at its deadline, if its job is canceled, and if the worker stops. */
function watchStops({ run }: AnsweringChat, remainingMs: number) {
  let error: JobError | null = null;
  const stop = (reason: JobError): void => {
    error ??= reason;
    run.handleDisconnect();
  };
  const timer = setTimeout(() => stop(describe('DEADLINE_EXCEEDED')), remainingMs);
  Context.current().cancelled.catch((reason: unknown) => {
    const { message } = reason instanceof CancelledFailure ? reason : { message: '' };
    // After an outage of Temporal, the server no longer knows the attempt, which continues.
    if (message === 'CANCELLED') stop(describe('CANCELED'));
    if (message === 'WORKER_SHUTDOWN') stop(interrupted('JOB_LOST'));
  });
  return {
    /** Reason why the answer was stopped; null if it was not. */
    get error(): JobError | null {
      return error;
    },
    end: () => clearTimeout(timer),
  };
}

/** Interval at which the steps of an answer that have arrived are stored, in milliseconds. */
const pieceIntervalMs = 1000;
/** Number of steps that may wait to be stored. With more, the provider's stream is paused. */
const waitingStepsMax = 20_000;

/** Creates the writer of an answer, which stores at most one piece a second. */
function createPieceWriter(
  append: (piece: { number: number; steps: StreamStep[] }) => Promise<void>,
) {
  let waiting: StreamStep[] = [];
  let number = 0;
  let writing: Promise<void> | null = null;
  let failure: unknown = null;
  async function write(): Promise<void> {
    const steps = waiting;
    waiting = [];
    number += 1;
    const piece = { number, steps };
    await pRetry(() => append(piece), databaseRetries).catch((error: unknown) => {
      failure ??= error;
    });
  }
  /** Stores the steps that wait, unless a piece is being stored. */
  const flush = (): Promise<void> =>
    (writing ??= (waiting.length === 0 ? Promise.resolve() : write()).finally(() => {
      writing = null;
    }));
  const timer = setInterval(() => void flush(), pieceIntervalMs);
  return {
    async add(steps: readonly StreamStep[]): Promise<void> {
      waiting.push(...steps);
      if (waiting.length > waitingStepsMax) await flush();
    },
    /** Stores the rest of the answer. @throws the first error with which a piece was not stored */
    async close(): Promise<void> {
      clearInterval(timer);
      await flush();
      await flush();
      if (failure !== null) throw failure;
    },
  };
}

/**
 * Settles a chat job and ends it, in one transaction: by the end of its answer, or, if its worker
 * crashed, by the last checkpoint. A repeat changes nothing.
 */
export async function settleChat(deps: SettleDeps, task: ChatToSettle): Promise<ChatSettlement> {
  const { jobId, organizationId } = task;
  const job = await deps.reads.read(organizationId, jobId);
  if (!job) return { verdict: 'not_reserved' };
  const record = await deps.records.find({ jobId, callIndex: 0 });
  const end = record?.verdict === 'answered' ? answerEnd.parse(record.outputs.data) : null;
  const error = end ? end.error : record ? interrupted('OUTCOME_UNKNOWN') : task.error;
  const settlement = end?.settlement ?? (await deps.chatLedger.readCheckpoint(jobId));
  const status = !error ? 'completed' : error.code === 'CANCELED' ? 'canceled' : 'failed';
  const outputs = error || !end ? null : await buildOutputs(deps, { ...task, end });
  const ended: NonNullable<Settlement['job']> = { status, outputs, error, artifacts: [] };
  const result = await deps.chatLedger.settle({
    ...settlement,
    organizationId,
    id: jobId,
    job: ended,
  });
  deps.logger.info({ jobId, verdict: result.verdict, status }, 'chat_job.settled');
  if (result.verdict === 'not_reserved') return { verdict: 'not_reserved' };
  await deps.chatJobs.end(jobId);
  const { verdict, state, charged: chargedMicro } = result;
  if (verdict === 'settled' || job.status === 'open')
    return { verdict, status, state, chargedMicro, error };
  return { verdict, status: job.status, state, chargedMicro, error: job.error };
}

/** Builds the outputs of a completed chat job: the answer in the format of its endpoint. */
async function buildOutputs(
  { chatJobs, reads }: SettleDeps,
  { jobId: id, organizationId, end }: ChatToSettle & { end: AnswerEnd },
): Promise<CallOutputs[]> {
  const chat = await chatJobs.read(organizationId, id);
  const job = await reads.read(organizationId, id);
  let data: CallOutputs['data'] = null;
  if (chat && job) {
    const { amountMicro: charged, servedBy, ...usage } = end.settlement;
    const ended = { ...job, status: 'completed' as const, charged, error: null };
    const answered = { job: ended, chat: { ...chat, servedBy, usage }, end };
    data = asJson(JSON.parse(formatWholeAnswer(answered, await chatJobs.readPieces(id))));
  }
  return [{ callIndex: 0, artifacts: [], data, delivered: 1, error: null }];
}
