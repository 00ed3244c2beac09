/**
 * A Studio request on its way: read, planned, claimed, admitted, and its job waited for. Or to its estimate: the
 * same way up to its price.
 */
import type { JobRecord } from '../../activities/jobs/job-reads.ts';
import type { Uploads } from '../../activities/storage/uploads.ts';
import { creditsFromMicro } from '../../domain/credits.ts';
import { GatewayError } from '../../domain/errors.ts';
import { newId } from '../../domain/ids.ts';
import { answersLater, type Capability, type DraftCall } from '../../studio/capability.ts';
import type { Composition } from '../composition.ts';
import type { Context } from '../context.ts';
import type { Hold } from '../idempotency/claims.ts';
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

type Services = Pick<
  Composition,
  | 'config'
  | 'admission'
  | 'claims'
  | 'inputs'
  | 'copies'
  | 'storage'
  | 'recordings'
  | 'pictures'
  | 'uploads'
  | 'webhooks'
  | 'outbound'
>;

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
export async function submitJob(
  ctx: Context,
  { capability, read = readRequest }: { capability: Capability; read?: ReadRequestOf },
  services: Services,
): Promise<{ job: JobRecord; waited: boolean }> {
  const started = await start(ctx, { capability, read }, services);
  const { jobId, replayed, news, waitMs } = started;
  const { organizationId } = ctx.state.caller;
  const job = await services.admission.awaitByFew({ organizationId, jobId, news }, waitMs);
  if (!job) {
    throw new GatewayError('SERVICE_UNAVAILABLE', 'The job could not be admitted.', {
      retryAfterSeconds: 2,
    });
  }
  // Who did not want to wait gets the ticket, however quick the job was; a repeat may get more.
  return { job, waited: waitMs > 0 || replayed };
}

/** Starts the job of a request, or finds it. */
async function start(
  ctx: Context,
  { capability, read }: { capability: Capability; read: ReadRequestOf },
  services: Services,
): Promise<Started> {
  const { caller, requestId } = ctx.state;
  const kept: KeptFile[] = [];
  try {
    const reading = { ...services, read, onKeeping: keeperOf(kept) };
    const drafted = await draftRequest(ctx, capability, reading);
    const { request, sameAs, webhookUrl, metadata, draft } = drafted;
    const waitMs = answersLater(capability, request)
      ? 0
      : preferredWaitMs(ctx, services.config.SYNC_WAIT_MS);
    const beside = { ...(webhookUrl !== null && { webhookUrl }), ...(metadata && { metadata }) };
    const body = Object.keys(beside).length === 0 ? sameAs : { request: sameAs, ...beside };
    const hold = await services.claims.hold(ctx, {
      path: capability.path,
      body,
      subjectId: newId('job'),
    });
    const { subjectId: jobId } = hold;
    if (hold.state === 'done') {
      ctx.set('Idempotent-Replayed', 'true');
      // The job has what came with the first request.
      discardFiles(services.uploads, kept);
      return { jobId, replayed: true, news: null, waitMs };
    }
    const candidate = { requestId, caller, capability, request, metadata, draft, webhookUrl };
    const news = await admit(services, { ...candidate, hold });
    return { jobId, replayed: false, news, waitMs };
  } catch (error) {
    // A refusal that names a job may run all the same.
    const startedNothing = error instanceof GatewayError && error.body?.['jobId'] === undefined;
    if (startedNothing) discardFiles(services.uploads, kept);
    throw error;
  }
}

async function admit(
  services: Services,
  { hold, webhookUrl: url, ...wanted }: Candidate,
): Promise<JobSubscription> {
  const { organizationId } = wanted.caller;
  const { config, admission, webhooks, storage } = services;
  const jobId = hold.subjectId;
  const copies = services.copies.of({ organizationId, jobId });
  try {
    const draft = await measurePrices({ storage, copies }, wanted.draft);
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
export async function estimateRequest(
  ctx: Context,
  capability: Capability,
  services: Omit<Services, 'admission' | 'claims' | 'webhooks'>,
): Promise<Estimate> {
  const { organizationId } = ctx.state.caller;
  const { config, uploads, storage } = services;
  const kept: KeptFile[] = [];
  // Copies belong to a job, here to one that never is.
  const copies = services.copies.of({ organizationId, jobId: newId('job') });
  try {
    const reading = { ...services, read: readRequest, onKeeping: keeperOf(kept) };
    const { draft } = await draftRequest(ctx, capability, reading);
    const { model, calls } = await measurePrices({ storage, copies }, draft);
    const priced = priceCalls(config, calls);
    return {
      type: capability.type,
      model,
      credits: creditsFromMicro(priced.priceMicro),
      items: priced.calls.map(({ call, unitPriceMicro }) => itemOf(call, unitPriceMicro)),
    };
  } finally {
    discardFiles(uploads, kept);
    await copies.discard();
  }
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
