/** Formats the answers of chat jobs from their rows: whole, or as the events of a stream. */
import { creditsFromMicro } from '../domain/credits.ts';
import { GatewayError } from '../domain/errors.ts';
import type { ChatBill } from './chat-run.ts';
import type { AnswerEnd, AnswerPiece, ChatFormat, StoredChat } from './chat-jobs.ts';
import {
  completionsPresentation,
  servicePresentation,
  type ChatContext,
  type Presentation,
} from './formats/completions-answer.ts';
import {
  createResponsesPresentation,
  formatUnfinishedResponse,
  type StoredResponse,
} from './formats/responses-answer.ts';
import { joinSteps } from './stream-steps.ts';

/** State of a chat job that its answer depends on. */
export interface ChatJobState {
  id: string;
  /** Model that was requested. */
  model: string | null;
  status: 'open' | 'completed' | 'failed' | 'canceled';
  createdAtMs: number;
  /** Charged micro-credits; null if nothing was charged. */
  charged: number | null;
  error: { code: GatewayError['code']; message: string } | null;
}

/** Chat job, with the end of its answer; null if the answer has not ended, or its worker crashed. */
export interface AnsweredJob {
  job: ChatJobState;
  chat: StoredChat;
  end: AnswerEnd | null;
}

const nothing = { id: '', created: 0, model: '' };

/** Creates the presentation of a format, which formats a stored answer the same each time. */
function createPresentation(name: ChatFormat, times: StoredResponse): Presentation {
  if (name === 'chat') return servicePresentation;
  return name === 'completions' ? completionsPresentation : createResponsesPresentation(times);
}

function createContext({ job, chat, end }: AnsweredJob, served = chat.servedBy): ChatContext {
  const { head = nothing, finishReason = null, stopSequence = null, tried = [] } = end ?? {};
  const streamMetadata = { head, finishReason, stopSequence };
  const { request, requestId, usage } = chat;
  return {
    chat: { id: job.id, servedBy: served, tried, streamMetadata, usage },
    request,
    requestId,
  };
}

const createBill = ({ job, chat }: AnsweredJob): ChatBill => ({
  usage: chat.usage,
  creditsConsumed: creditsFromMicro(job.charged ?? 0),
  priceMicro: job.charged ?? 0,
});

const createError = ({ error }: ChatJobState): GatewayError | null =>
  error && new GatewayError(error.code, error.message);

/** Formats the whole answer of a completed chat job as JSON. */
export function formatWholeAnswer(answered: AnsweredJob, pieces: readonly AnswerPiece[]): string {
  const context = createContext(answered);
  const answer = joinSteps(
    pieces.flatMap(({ steps }) => steps),
    context.chat.streamMetadata,
  );
  const { job, chat, end } = answered;
  const times = { createdAtMs: job.createdAtMs, endedAtMs: end?.endedAtMs ?? null };
  const presentation = createPresentation(chat.format, times);
  return presentation.body(context, answer, createBill(answered));
}

/** Formats the response of a chat job that is not complete, in OpenAI's format. */
export function formatRunningResponse(
  answered: AnsweredJob,
  { pieces, hasStarted }: { pieces: readonly AnswerPiece[]; hasStarted: boolean },
): object {
  const { job } = answered;
  const openStatus = hasStarted ? 'in_progress' : 'queued';
  return formatUnfinishedResponse(createContext(answered, pieces[0]?.servedBy), {
    status: job.status === 'open' ? openStatus : job.status === 'canceled' ? 'cancelled' : 'failed',
    error: createError(job),
    bill: job.status === 'open' ? null : createBill(answered),
    createdAtMs: job.createdAtMs,
    steps: pieces.flatMap(({ steps }) => steps),
  });
}

/**
 * Creates the functions that format an answer as the events of a stream, in the order of its pieces.
 * Events up to the number `startingAfter` are omitted.
 */
export function createEvents({ job, chat }: AnsweredJob, startingAfter: number) {
  const { createdAtMs } = job;
  const times: StoredResponse = { createdAtMs, endedAtMs: null, startingAfter };
  const events = createPresentation(chat.format, times);
  const initial = createContext(
    { job, chat, end: null },
    {
      ...chat.servedBy,
      model: job.model ?? chat.servedBy.model,
    },
  );
  return {
    /** Formats the events that start the stream. */
    formatStart: (): string => events.steps(initial, []),
    formatPiece: ({ servedBy, steps }: AnswerPiece): string =>
      events.steps(createContext({ job, chat, end: null }, servedBy), steps),
    /** Formats the last events, after the job has ended. */
    formatEnd(answered: AnsweredJob): string {
      times.endedAtMs = answered.end?.endedAtMs ?? null;
      const error = createError(answered.job);
      const context = createContext(answered);
      const bill = createBill(answered);
      return error ? events.failure(context, error, bill) : events.end(context, bill);
    },
  };
}
