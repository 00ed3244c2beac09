/** A Studio request on its way to its job: read, planned, claimed, admitted, and waited for. */
import { GatewayError } from '../../domain/errors.ts';
import { newId } from '../../domain/ids.ts';
import type { JobRecord } from '../../activities/jobs/job-reads.ts';
import type { Services } from '../../activities/services.ts';
import type { Uploads } from '../../activities/storage/uploads.ts';
import type { Config } from '../../platform/config.ts';
import { answersLater, type Capability } from '../../studio/capability.ts';
import type { Context } from '../context.ts';
import { unkeyedHold, type Claims, type Hold } from '../idempotency/claims.ts';
import { idempotencyKeyOf } from '../middleware/idempotency-key.ts';
import type { Admission } from './admission.ts';
import type { JobSubscription } from './job-news.ts';
import { measurePrices } from './measured-prices.ts';
import { completePlan, type Planned } from './planner.ts';
import { draftRequest, type DraftingDeps } from './request-draft.ts';
import { readRequest, type ReadingDeps, type ReadRequestOf } from './request-reading.ts';
import { preferredWaitMs } from './waiting.ts';

interface SubmissionDeps {
  config: Config;
  admission: Admission;
  claims: Claims;
  services: Pick<
    Services,
    'inputs' | 'copies' | 'meter' | 'recordings' | 'pictures' | 'uploads' | 'webhooks' | 'outbound'
  >;
}

/** A request on its way to becoming a job. */
type Candidate = Omit<Planned, 'tells' | 'jobId'> & { hold: Hold; webhookUrl: string | null };

/** A job that runs, or did, for this request or for the first with its Idempotency-Key. */
interface Started {
  jobId: string;
  replayed: boolean;
  news: JobSubscription | null;
  waitMs: number;
}

/**
 * Makes the job of a Studio request, or finds it, and waits as long as the caller likes; `waited` tells
 * whether he wanted to. `read` reads the request; absent: as the capability describes it.
 * @throws GatewayError what refuses the request
 */
export type SubmitJob = (
  ctx: Context,
  capability: Capability,
  read?: ReadRequestOf,
) => Promise<{ job: JobRecord; waited: boolean }>;

/** Whether a request certainly started nothing: a refusal that names a job may run all the same. */
function startedNothing(error: unknown): boolean {
  return error instanceof GatewayError && error.body?.['jobId'] === undefined;
}

/** See `SubmitJob`. */
export function createSubmitJob(deps: SubmissionDeps): SubmitJob {
  const awaitEnd = awaitedByFew(deps.admission, deps.config.SYNC_WAITERS_MAX);
  const start = createStart(deps);

  return async (ctx, capability, read = readRequest) => {
    const kept: KeptFile[] = [];
    const reading = { ...deps.services, read, onKeeping: keeperOf(kept) };
    let started: Started | undefined;
    try {
      started = await start(ctx, capability, reading);
    } catch (error) {
      if (startedNothing(error)) discardFiles(deps.services.uploads, kept);
      throw error;
    }
    const { jobId, replayed, news, waitMs } = started;
    // The job has what came with the first request.
    if (replayed) discardFiles(deps.services.uploads, kept);
    const { organizationId } = ctx.state.caller;
    const job = await awaitEnd({ organizationId, jobId, news }, waitMs);
    if (!job) {
      throw new GatewayError('SERVICE_UNAVAILABLE', 'The job could not be admitted.', {
        retryAfterSeconds: 2,
      });
    }
    // Who did not want to wait gets the ticket, however quick the job was; a repeat may get more.
    return { job, waited: waitMs > 0 || replayed };
  };
}

/** A file of a request, on its way into the storage. */
export type KeptFile = Parameters<ReadingDeps['onKeeping']>[0];

/** Takes note of files; whoever reads the request hears how that ends. */
export function keeperOf(kept: KeptFile[]): ReadingDeps['onKeeping'] {
  return (file) => {
    file.catch(() => {});
    kept.push(file);
  };
}

/** Beside the answer, which need not wait for it; what is missed here goes as a file that is not used. */
export function discardFiles(uploads: Pick<Uploads, 'discard'>, kept: readonly KeptFile[]): void {
  for (const keeping of kept) {
    keeping.then(({ storageKey }) => uploads.discard(storageKey)).catch(() => {});
  }
}

type Start = (ctx: Context, capability: Capability, reading: DraftingDeps) => Promise<Started>;

/** The way of a request to its job: read, planned, claimed, admitted. */
function createStart(deps: SubmissionDeps): Start {
  function claim(ctx: Context, capability: Capability, body: unknown): ReturnType<Claims['hold']> {
    const subjectId = newId('job');
    const idempotencyKey = idempotencyKeyOf(ctx);
    if (idempotencyKey === null) return Promise.resolve(unkeyedHold(subjectId));
    const { organizationId } = ctx.state.caller;
    const { path } = capability;
    return deps.claims.hold({ organizationId, idempotencyKey, path, body, subjectId });
  }

  async function admit({ hold, webhookUrl: url, ...wanted }: Candidate): Promise<JobSubscription> {
    const { organizationId } = wanted.caller;
    const { webhooks, meter } = deps.services;
    const jobId = hold.subjectId;
    const copies = deps.services.copies.of({ organizationId, jobId });
    try {
      const draft = await measurePrices({ meter, copies }, wanted.draft);
      const plan = completePlan(deps.config, { ...wanted, jobId, draft, tells: url !== null });
      // Before the job is: no accepted job may lack its webhook.
      if (url !== null) await webhooks.add({ jobId, organizationId, url });
      const news = await deps.admission.admit(plan, hold);
      hold.leave();
      return news;
    } catch (error) {
      // What was started may run all the same: it keeps its key, its webhook and its inputs.
      if (await hold.giveBack()) {
        await copies.discard();
        if (url !== null) await webhooks.drop(jobId);
      }
      throw error;
    }
  }

  return async (ctx, capability, reading) => {
    const { caller, requestId } = ctx.state;
    const drafted = await draftRequest(ctx, capability, reading);
    const { request, sameAs, webhookUrl, metadata, draft } = drafted;
    const waitMs = answersLater(capability, request)
      ? 0
      : preferredWaitMs(ctx, deps.config.SYNC_WAIT_MS);
    const beside = { ...(webhookUrl !== null && { webhookUrl }), ...(metadata && { metadata }) };
    const body = Object.keys(beside).length === 0 ? sameAs : { request: sameAs, ...beside };
    const claimed = await claim(ctx, capability, body);
    const { subjectId: jobId } = claimed;
    const replayed = claimed.state === 'done';
    if (replayed) ctx.set('Idempotent-Replayed', 'true');
    const candidate = { requestId, caller, capability, request, metadata, draft, webhookUrl };
    const news = replayed ? null : await admit({ ...candidate, hold: claimed });
    return { jobId, replayed, news, waitMs };
  };
}

/** A job's end within the wait, or its state then. Beyond so many waiters nobody is waited for. */
function awaitedByFew(admission: Admission, waitersMax: number): Admission['awaitEnd'] {
  let waiting = 0;
  return async (job, waitMs) => {
    // An answer to poll is kinder than a slow process.
    const allowed = waiting < waitersMax;
    waiting += 1;
    try {
      return await admission.awaitEnd(job, allowed ? waitMs : 0);
    } finally {
      waiting -= 1;
    }
  };
}
