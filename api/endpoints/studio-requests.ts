/**
 * Reads a Studio request, submits or estimates it, and discards its files if it starts no job. The
 * files are stored under ids of their own, so a replayed request needs them no more.
 */
import { GatewayError } from '../../domain/errors.ts';
import type { Capability } from '../../studio/capabilities/capability.ts';
import type { JobRecord } from '../../studio/jobs/job-reads.ts';
import { estimateRequest } from '../../studio/requests/estimates.ts';
import { startJob, type StartedJob } from '../../studio/requests/job-submission.ts';
import type { Estimate } from '../../studio/requests/prices.ts';
import type { StudioRequest } from '../../studio/requests/request-draft.ts';
import type { Composition } from '../composition.ts';
import type { Context } from '../context.ts';
import {
  completeEndUser,
  parseIdempotencyKey,
  parsePreferredWaitMs,
} from '../http/request-headers.ts';
import { closedSignal, countBytes } from '../middleware/request-shares.ts';
import { createFileList, readRequest, type RequestBodyReader } from './studio-body.ts';

/** Options of a Studio endpoint: how it reads a request, and how long the request may wait. */
export interface RequestOptions {
  capability: Capability;
  /** Reads the request body. Defaults to the format of the capability's own endpoint. */
  readBody?: RequestBodyReader;
  /** Maximum time to wait for the job to end, in milliseconds. Defaults to SYNC_WAIT_MS. */
  waitMaxMs?: number;
}

type FileList = ReturnType<typeof createFileList>;

async function read(
  ctx: Context,
  { capability, readBody = readRequest }: RequestOptions,
  services: Composition & FileList,
): Promise<StudioRequest> {
  const { endUserDefault, ...parsedRequest } = await readBody(ctx, capability, services);
  const metadata = completeEndUser(ctx, parsedRequest.metadata, endUserDefault);
  return {
    caller: ctx.state.caller,
    capability,
    parsedRequest: { ...parsedRequest, metadata },
    countCopied: (bytes) => countBytes(ctx, { kind: 'spool', bytes }),
  };
}

/**
 * Starts the job of a request, or finds the job of an earlier request with the same
 * Idempotency-Key.
 * @throws GatewayError if the request is rejected
 */
export async function startRequest(
  ctx: Context,
  options: RequestOptions,
  services: Composition,
): Promise<StartedJob> {
  const files = createFileList();
  let isUsed = false;
  try {
    const request = await read(ctx, options, { ...services, ...files });
    const submission = {
      ...request,
      requestId: ctx.state.requestId,
      idempotencyKey: parseIdempotencyKey(ctx),
      waitMs: parsePreferredWaitMs(ctx, options.waitMaxMs ?? services.config.SYNC_WAIT_MS),
      signal: closedSignal(ctx),
    };
    const job = await startJob(submission, services);
    ctx.state.recordRejection = undefined;
    if (job.replayed) ctx.set('Idempotent-Replayed', 'true');
    isUsed = !job.replayed;
    return job;
  } catch (error) {
    // If the error contains a job id, the job with this id may still run and needs the files.
    isUsed = !(error instanceof GatewayError) || error.body?.['jobId'] !== undefined;
    throw error;
  } finally {
    files.discard({ isUsed });
  }
}

/**
 * Starts the job of a request and waits for it to end (`startRequest`).
 * @throws GatewayError if the request is rejected
 */
export async function submitRequest(
  ctx: Context,
  options: RequestOptions,
  services: Composition,
): Promise<{ job: JobRecord; waited: boolean }> {
  const { awaitEnd } = await startRequest(ctx, options, services);
  return awaitEnd();
}

/**
 * Estimates a request, and deletes its files.
 * @throws GatewayError any error that the request itself can throw before it reserves credits
 */
export async function estimateBody(
  ctx: Context,
  capability: Capability,
  services: Composition,
): Promise<Estimate> {
  const files = createFileList();
  try {
    const request = await read(ctx, { capability }, { ...services, ...files });
    return await estimateRequest(request, services);
  } finally {
    files.discard({ isUsed: false });
  }
}
