/**
 * Submits a Studio request: reads it, claims its Idempotency-Key, drafts and prices its plan,
 * starts the job and waits for it. An estimate executes the same steps up to the price.
 */
import type { JobRecord } from '../../jobs/records/job-reads.ts';
import { creditsFromMicro } from '../../domain/credits.ts';
import { GatewayError } from '../../domain/errors.ts';
import { newId } from '../../domain/ids.ts';
import { answersLater, type Capability } from '../../studio/capability.ts';
import type { DraftCall } from '../../studio/draft-plan.ts';
import type { Composition } from '../composition.ts';
import type { Context } from '../context.ts';
import type { Hold } from '../idempotency/holds.ts';
import type { JobSubscription } from './job-updates.ts';
import { completePlan, priceCalls } from './planner.ts';
import type { Estimate, EstimateItem } from './prices.ts';
import { authorizeRequest, draftRequest, measurePrices } from './request-draft.ts';
import {
  type ReadingDeps,
  type ReadRequest,
  readRequest,
  type ReadRequestOf,
} from './request-reading.ts';

type Services = Pick<
  Composition,
  | 'config'
  | 'admission'
  | 'claims'
  | 'inputs'
  | 'copies'
  | 'storage'
  | 'recordings'
  | 'requestFiles'
  | 'webhooks'
  | 'outbound'
>;

/** Request that was read, with its claim of the Idempotency-Key. */
interface ClaimedRequest {
  capability: Capability;
  read: ReadRequest;
  hold: Hold;
}

/** Job of this request, or of the first request with its Idempotency-Key. */
interface Started {
  jobId: string;
  replayed: boolean;
  updates: JobSubscription | null;
  waitMs: number;
}

/** Format and wait of a Studio request. */
export interface RequestReader {
  capability: Capability;
  /** Reads the request body; absent: the capability's own format. */
  readBody?: ReadRequestOf;
  /** Longest wait for the end of the job, in milliseconds; absent: SYNC_WAIT_MS. */
  waitMaxMs?: number;
}

/** Started job of a request. */
interface StartedJob {
  jobId: string;
  /**
   * Waits for the end of the job as long as the caller prefers; `waited` is false for an
   * asynchronous request. To be called once.
   * @throws GatewayError SERVICE_UNAVAILABLE
   */
  ended: () => Promise<{ job: JobRecord; waited: boolean }>;
}

/**
 * Starts the job of a Studio request, or finds the job of the first request with its
 * Idempotency-Key.
 * @throws GatewayError for a rejected request
 */
export async function startJob(
  ctx: Context,
  reader: RequestReader,
  services: Services,
): Promise<StartedJob> {
  const { organizationId } = ctx.state.caller;
  const { jobId, replayed, updates, waitMs } = await start(ctx, reader, services);
  return {
    jobId,
    async ended() {
      const job = await services.admission.awaitByFew({ organizationId, jobId, updates }, waitMs);
      if (!job) {
        throw new GatewayError('SERVICE_UNAVAILABLE', 'The job could not be admitted.', {
          retryAfterSeconds: 2,
        });
      }
      // Asynchronous callers always get 202; a replay may return the result.
      return { job, waited: waitMs > 0 || replayed };
    },
  };
}

/**
 * Starts the job of a Studio request and waits for its end (`startJob`).
 * @throws GatewayError for a rejected request
 */
export async function submitJob(
  ctx: Context,
  reader: RequestReader,
  services: Services,
): Promise<{ job: JobRecord; waited: boolean }> {
  const { ended } = await startJob(ctx, reader, services);
  return ended();
}

/**
 * Starts the job of a request, or finds it by its claim. The claim is read before any input is
 * resolved.
 */
async function start(
  ctx: Context,
  { capability, readBody = readRequest, waitMaxMs }: RequestReader,
  services: Services,
): Promise<Started> {
  const files: RequestFile[] = [];
  try {
    const read = await readBody(ctx, capability, { ...services, onReceiving: tracker(files) });
    authorizeRequest(ctx, capability, read);
    const { request, webhookUrl, metadata } = read;
    const waitMs = answersLater(capability, request)
      ? 0
      : preferredWaitMs(ctx, waitMaxMs ?? services.config.SYNC_WAIT_MS);
    const options = { ...(webhookUrl !== null && { webhookUrl }), ...(metadata && { metadata }) };
    const hold = await services.claims.hold(ctx, {
      path: capability.path,
      body: Object.keys(options).length === 0 ? request : { request, ...options },
      subjectId: newId('job'),
    });
    const { subjectId: jobId } = hold;
    if (hold.state === 'done') {
      ctx.set('Idempotent-Replayed', 'true');
      discardFiles(files);
      return { jobId, replayed: true, updates: null, waitMs };
    }
    const updates = await admit(ctx, { capability, read, hold }, services);
    return { jobId, replayed: false, updates, waitMs };
  } catch (error) {
    // If the error names a job, the job may still run and needs its files.
    const startedNothing = error instanceof GatewayError && error.body?.['jobId'] === undefined;
    if (startedNothing) discardFiles(files);
    throw error;
  }
}

async function admit(
  ctx: Context,
  { capability, read, hold }: ClaimedRequest,
  services: Services,
): Promise<JobSubscription> {
  const { caller, requestId } = ctx.state;
  const { organizationId } = caller;
  const { config, admission, webhooks, storage } = services;
  const { webhookUrl: url, metadata } = read;
  const jobId = hold.subjectId;
  const copies = services.copies.of({ organizationId, jobId });
  try {
    const { request, draft: drafted } = await draftRequest(ctx, { capability, read }, services);
    const draft = await measurePrices({ storage, copies }, drafted);
    const planned = { requestId, caller, capability, request, metadata, draft };
    const plan = completePlan(config, { ...planned, jobId, hasWebhook: url !== null });
    // The webhook is recorded before the start, so that no accepted job lacks it.
    if (url !== null) await webhooks.add({ subjectId: jobId, organizationId, url });
    const updates = await admission.admit(plan, hold);
    hold.leave();
    return updates;
  } catch (error) {
    // A started job may run despite the error, so its key, webhook and inputs are kept.
    if (await hold.giveBack()) {
      await copies.discard();
      if (url !== null) await webhooks.drop(jobId);
    }
    throw error;
  }
}

/** Promise of a file of a request: the file has arrived, or is still arriving. */
type RequestFile = Parameters<ReadingDeps['onReceiving']>[0];

/**
 * Makes a function that adds files to a list; their failures are reported to the reader of the
 * request.
 */
function tracker(files: RequestFile[]): ReadingDeps['onReceiving'] {
  return (file) => {
    file.catch(() => {});
    files.push(file);
  };
}

/**
 * Discards files without delaying the response; the sweep of unused uploads removes what is missed
 * here.
 */
function discardFiles(files: readonly RequestFile[]): void {
  for (const receiving of files) receiving.then((file) => file.discard()).catch(() => {});
}

const preference = /(?:^|[,;\s])wait=(\d{1,4})(?:$|[,;\s])/i;
const respondAsync = /(?:^|[,;\s])respond-async(?:$|[,;\s])/i;

/**
 * Returns the milliseconds of `Prefer: wait=n` (RFC 7240), at most `maxMs`; 0 for `respond-async`,
 * `maxMs` without either.
 */
export function preferredWaitMs(ctx: Pick<Context, 'get'>, maxMs: number): number {
  const prefer = ctx.get('prefer');
  const [, seconds] = preference.exec(prefer) ?? [];
  if (seconds !== undefined) return Math.min(Number(seconds) * 1000, maxMs);
  return respondAsync.test(prefer) ? 0 : maxMs;
}

/**
 * Estimates the credits that a Studio request would reserve. No job is started, nothing is
 * reserved, and files and copies that were stored to measure inputs are deleted.
 * @throws GatewayError the errors of the request itself before it reserves credits
 */
export async function estimateRequest(
  ctx: Context,
  capability: Capability,
  services: Omit<Services, 'admission' | 'claims' | 'webhooks'>,
): Promise<Estimate> {
  const { organizationId } = ctx.state.caller;
  const { config, storage } = services;
  const files: RequestFile[] = [];
  // Copies belong to a job id; an estimate uses a new id that no job has.
  const copies = services.copies.of({ organizationId, jobId: newId('job') });
  try {
    const read = await readRequest(ctx, capability, { ...services, onReceiving: tracker(files) });
    authorizeRequest(ctx, capability, read);
    const { draft } = await draftRequest(ctx, { capability, read }, services);
    const { model, calls } = await measurePrices({ storage, copies }, draft);
    const priced = priceCalls(config, calls);
    return {
      type: capability.type,
      model,
      credits: creditsFromMicro(priced.priceMicro),
      items: priced.calls.map(({ call, unitPriceMicro }) => itemOf(call, unitPriceMicro)),
    };
  } finally {
    discardFiles(files);
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
