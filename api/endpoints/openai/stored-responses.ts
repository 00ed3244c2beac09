/** Reads stored responses: chat jobs in OpenAI's format, whole or as the events of a stream. */
import {
  createEvents,
  formatRunningResponse,
  type AnsweredJob,
} from '../../../chat/chat-job-answers.ts';
import { answerEnd } from '../../../chat/chat-jobs.ts';
import { commentKeepalive } from '../../../chat/formats/completions-answer.ts';
import { GatewayError } from '../../../domain/errors.ts';
import { chatJobType } from '../../../domain/job-contract.ts';
import type { JobRecord } from '../../../domain/job-record.ts';
import { isRecord } from '../../../domain/json.ts';
import { listInvalid } from '../../../executions/feed.ts';
import type { Composition } from '../../composition.ts';
import type { Context } from '../../context.ts';
import { createEventStream, eventStreamType, ReaderDisconnected } from '../../http/event-stream.ts';
import { unbuffered } from '../../http/kept-answer.ts';
import { closedSignal } from '../../middleware/request-shares.ts';

/** Interval at which a stream reads the pieces of its answer, in milliseconds. */
const pollMs = 500;
/** Number of these intervals between checks of the reader's key. */
const keyCheckPolls = 10;

/** Creates the error for a response that is not stored. */
export const notFound = (): GatewayError =>
  new GatewayError(
    'NOT_FOUND',
    'No such response. Only responses with `background: true` are stored, and for a limited time.',
  );

/** Adds the stored answer to a chat job. @throws GatewayError NOT_FOUND if there is none */
export async function readAnswer(
  { chatJobs, records }: Pick<Composition, 'chatJobs' | 'records'>,
  job: JobRecord,
): Promise<AnsweredJob> {
  const chat = job.type === chatJobType ? await chatJobs.read(job.organizationId, job.id) : null;
  if (chat?.format !== 'responses') throw notFound();
  const record = await records.find({ jobId: job.id, callIndex: 0 });
  const end = record?.verdict === 'answered' ? answerEnd.parse(record.outputs.data) : null;
  return { job, chat, end };
}

/** Formats the response of a chat job as it is now. */
export async function showResponse(services: Composition, job: JobRecord): Promise<object> {
  const answered = await readAnswer(services, job);
  const answer = job.outputs?.[0]?.data;
  if (isRecord(answer)) return answer;
  const pieces = await services.chatJobs.readPieces(job.id);
  return formatRunningResponse(answered, { pieces, hasStarted: job.startedAtMs !== null });
}

/**
 * Sends the events of a response that follow the one with the number `startingAfter`, until it ends or
 * the key of the reader does.
 */
export async function streamResponse(
  ctx: Context,
  { job: first, startingAfter }: { job: JobRecord; startingAfter: number },
  services: Composition,
): Promise<void> {
  const { id, organizationId } = first;
  const { chatJobs, jobWaits, config, pool } = services;
  const { caller, sessionId } = ctx.state;
  const reader = { keyId: caller.keyId, token: caller.token, sessionId };
  ctx.state.endTurn?.();
  const events = createEvents(await readAnswer(services, first), startingAfter);
  const stream = createEventStream(ctx.res, {
    keepaliveMs: config.CHAT_KEEPALIVE_MS,
    keepalive: commentKeepalive,
    open() {
      ctx.status = 200;
      ctx.set({ 'Content-Type': eventStreamType, ...unbuffered });
      ctx.respond = false;
    },
  });
  const signal = closedSignal(ctx);
  try {
    await stream.write(events.formatStart());
    // The state is read before the pieces: all pieces are stored before the job ends.
    for (let job: JobRecord | null = first, after = 0, polls = 1; ; polls += 1) {
      for (const piece of await chatJobs.readPieces(id, after)) {
        after = piece.number;
        await stream.write(events.formatPiece(piece));
      }
      if (job.status !== 'open')
        return stream.end(events.formatEnd(await readAnswer(services, job)));
      job = await jobWaits.awaitEnd({ organizationId, id, signal }, pollMs);
      if (!job || (jobWaits.isDraining() && job.status === 'open')) break;
      if (polls % keyCheckPolls === 0 && (await listInvalid(pool, [reader])).length > 0) break;
    }
    ctx.res.destroy();
  } catch (error) {
    if (!(error instanceof ReaderDisconnected) && !stream.headersSent) throw error;
    // The client continues behind the last event that it has received.
    ctx.res.destroy();
  } finally {
    stream.stop();
  }
}

/** Sends the response of a request for a chat job, as JSON or as a stream. */
export async function sendBackgroundResponse(
  ctx: Context,
  { job, stream }: { job: JobRecord; stream: boolean },
  services: Composition,
): Promise<void> {
  if (stream) return streamResponse(ctx, { job, startingAfter: -1 }, services);
  // A new job is queued, even if its provider was called in the meantime.
  ctx.body = await showResponse(
    services,
    job.status === 'open' ? { ...job, startedAtMs: null } : job,
  );
}
