/**
 * A Studio request on its way: read, planned, claimed, admitted, and its job waited for. Or to its estimate: the
 * same way up to its price.
 */
import type { JobRecord } from '../../activities/jobs/job-reads.ts';
import type { Services } from '../../activities/services.ts';
import type { Uploads } from '../../activities/storage/uploads.ts';
import { creditsFromMicro } from '../../domain/credits.ts';
import { GatewayError } from '../../domain/errors.ts';
import { newId } from '../../domain/ids.ts';
import type { Config } from '../../platform/config.ts';
import { answersLater, type Capability, type DraftCall } from '../../studio/capability.ts';
import type { Context } from '../context.ts';
import type { Claims, Hold } from '../idempotency/claims.ts';
import type { Admission } from './admission.ts';
import type { JobSubscription } from './job-news.ts';
import { completePlan, type Planned, priceCalls } from './planner.ts';
import type { Estimate, EstimateItem } from './prices.ts';
import {
  draftRequest,
  measurePrices,
  type ReadingDeps,
  readRequest,
  type ReadRequestOf,
} from './request-draft.ts';

interface SubmissionDeps {
  config: Config;
  admission: Admission;
  claims: Claims;
  services: Pick<
    Services,
    'inputs' | 'copies' | 'meter' | 'recordings' | 'pictures' | 'uploads' | 'webhooks' | 'outbound'
  >;
}

/** A request that is to be a job. `read` reads it; absent: as the capability describes it. */
interface Submitted {
  ctx: Context;
  capability: Capability;
  read?: ReadRequestOf | undefined;
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
 * whether he wanted to.
 * @throws GatewayError what refuses the request
 */
export function createSubmitJob(deps: SubmissionDeps) {
  const awaitEnd = awaitedByFew(deps.admission, deps.config.SYNC_WAITERS_MAX);
  return async (
    ctx: Context,
    capability: Capability,
    read?: ReadRequestOf,
  ): Promise<{ job: JobRecord; waited: boolean }> => {
    const { jobId, replayed, news, waitMs } = await start(deps, { ctx, capability, read });
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

/** Starts the job of a request, or finds it. */
async function start(deps: SubmissionDeps, submitted: Submitted): Promise<Started> {
  const { ctx, capability, read = readRequest } = submitted;
  const { caller, requestId } = ctx.state;
  const kept: KeptFile[] = [];
  try {
    const reading = { ...deps.services, read, onKeeping: keeperOf(kept) };
    const drafted = await draftRequest(ctx, capability, reading);
    const { request, sameAs, webhookUrl, metadata, draft } = drafted;
    const waitMs = answersLater(capability, request)
      ? 0
      : preferredWaitMs(ctx, deps.config.SYNC_WAIT_MS);
    const beside = { ...(webhookUrl !== null && { webhookUrl }), ...(metadata && { metadata }) };
    const body = Object.keys(beside).length === 0 ? sameAs : { request: sameAs, ...beside };
    const hold = await deps.claims.hold(ctx, {
      path: capability.path,
      body,
      subjectId: newId('job'),
    });
    const { subjectId: jobId } = hold;
    if (hold.state === 'done') {
      ctx.set('Idempotent-Replayed', 'true');
      // The job has what came with the first request.
      discardFiles(deps.services.uploads, kept);
      return { jobId, replayed: true, news: null, waitMs };
    }
    const candidate = { requestId, caller, capability, request, metadata, draft, webhookUrl };
    const news = await admit(deps, { ...candidate, hold });
    return { jobId, replayed: false, news, waitMs };
  } catch (error) {
    // A refusal that names a job may run all the same.
    const startedNothing = error instanceof GatewayError && error.body?.['jobId'] === undefined;
    if (startedNothing) discardFiles(deps.services.uploads, kept);
    throw error;
  }
}

async function admit(
  { config, admission, services }: SubmissionDeps,
  { hold, webhookUrl: url, ...wanted }: Candidate,
): Promise<JobSubscription> {
  const { organizationId } = wanted.caller;
  const { webhooks, meter } = services;
  const jobId = hold.subjectId;
  const copies = services.copies.of({ organizationId, jobId });
  try {
    const draft = await measurePrices({ meter, copies }, wanted.draft);
    const plan = completePlan(config, { ...wanted, jobId, draft, tells: url !== null });
    // Before the job is: no accepted job may lack its webhook.
    if (url !== null) await webhooks.add({ jobId, organizationId, url });
    const news = await admission.admit(plan, hold);
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

/** A file of a request, on its way into the storage. */
type KeptFile = Parameters<ReadingDeps['onKeeping']>[0];

/** Takes note of files; whoever reads the request hears how that ends. */
function keeperOf(kept: KeptFile[]): ReadingDeps['onKeeping'] {
  return (file) => {
    file.catch(() => {});
    kept.push(file);
  };
}

/** Beside the answer, which need not wait for it; what is missed here goes as a file that is not used. */
function discardFiles(uploads: Pick<Uploads, 'discard'>, kept: readonly KeptFile[]): void {
  for (const keeping of kept) {
    keeping.then(({ storageKey }) => uploads.discard(storageKey)).catch(() => {});
  }
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

const preference = /(?:^|[,;\s])wait=(\d{1,4})(?:$|[,;\s])/i;
const respondAsync = /(?:^|[,;\s])respond-async(?:$|[,;\s])/i;

/** Milliseconds of `Prefer: wait=n` (RFC 7240), never more than `maxMs`; `respond-async` is 0. */
export function preferredWaitMs(ctx: Pick<Context, 'get'>, maxMs: number): number {
  const prefer = ctx.get('prefer');
  const [, seconds] = preference.exec(prefer) ?? [];
  if (seconds !== undefined) return Math.min(Number(seconds) * 1000, maxMs);
  return respondAsync.test(prefer) ? 0 : maxMs;
}

/**
 * What a Studio request would reserve. Nothing is started or reserved, and what was copied or kept to be
 * measured is thrown away.
 * @throws GatewayError what refuses the request itself before it reserves
 */
export function createEstimateRequest({
  config,
  services,
}: Pick<SubmissionDeps, 'config' | 'services'>) {
  return async (ctx: Context, capability: Capability): Promise<Estimate> => {
    const { organizationId } = ctx.state.caller;
    const kept: KeptFile[] = [];
    // Copies belong to a job, here to one that never is.
    const copies = services.copies.of({ organizationId, jobId: newId('job') });
    try {
      const reading = { ...services, read: readRequest, onKeeping: keeperOf(kept) };
      const { draft } = await draftRequest(ctx, capability, reading);
      const { model, calls } = await measurePrices({ meter: services.meter, copies }, draft);
      const priced = priceCalls(config, calls);
      return {
        type: capability.type,
        model,
        credits: creditsFromMicro(priced.priceMicro),
        items: priced.calls.map(({ call, unitPriceMicro }) => itemOf(call, unitPriceMicro)),
      };
    } finally {
      discardFiles(services.uploads, kept);
      await copies.discard();
    }
  };
}

const mediumUnits = {
  image: 'image',
  video: 'video',
  audio: 'recording',
  json: 'request',
} as const;

function itemOf(call: DraftCall, unitPriceMicro: number): EstimateItem {
  const { meter = 'artifact', quantity, output, priceNote: note } = call;
  return {
    unit: meter === 'artifact' ? mediumUnits[output.medium] : meter,
    quantity,
    creditsPerUnit: creditsFromMicro(unitPriceMicro),
    credits: creditsFromMicro(unitPriceMicro * quantity),
    ...(note !== undefined && { note }),
  };
}
