/**
 * Records rejected requests of endpoints that reserve credits, for the list of requests. The error of a request whose
 * chat or job was accepted is part of that chat or job.
 */
import type { RouterMiddleware } from '@koa/router';
import type { RequestKind } from '../../request-log/rejected-requests.ts';
import { newId } from '../../domain/ids.ts';
import type { GatewayError } from '../../domain/errors.ts';
import type { Composition } from '../composition.ts';
import type { Context, RequestState } from '../context.ts';
import type { Endpoint } from '../endpoints/endpoint.ts';
import { findStatus, toGatewayError } from './error-handler.ts';

/** Returns the kind of an endpoint's requests; null for an endpoint that reserves no credits. */
export function findRequestKind({
  path,
  scope,
  errors,
}: Pick<Endpoint, 'path' | 'scope' | 'errors'>): RequestKind | null {
  if (scope === 'admin' || !errors.includes('INSUFFICIENT_CREDITS')) return null;
  if (scope !== 'chat') return 'studio';
  return path.endsWith('/embeddings') ? 'embedding' : 'chat';
}

/** Texts that may be stored: names, never a text of a prompt. */
const modelPattern = /^[\w.:/@+-]{1,100}$/;
const fieldPattern = /^[\w.]{1,100}$/;

/** Sets the model of a request from the fields of its body, before they are checked. */
export function noteModel(ctx: Context, { model }: Record<string, unknown>): void {
  if (typeof model === 'string' && modelPattern.test(model)) ctx.state.requestedModel = model;
}

/** Creates the middleware that records the errors of an endpoint's requests. */
export function recordRejections(
  endpoint: Endpoint,
  kind: RequestKind,
  { rejectedRequests }: Pick<Composition, 'rejectedRequests'>,
): RouterMiddleware<RequestState> {
  return async (ctx, next) => {
    const startedAtMs = performance.now();
    const createdAtMs = Date.now();
    ctx.state.recordRejection = (error: GatewayError) => {
      const { caller, requestId, requestedModel = null, endUser = null } = ctx.state;
      // Without a valid key, the request belongs to no organization. An error with a job id is about a job.
      if (!caller || error.body?.['jobId'] !== undefined) return;
      const field = error.details?.[0]?.path ?? null;
      rejectedRequests.add({
        id: newId('rejectedRequest'),
        organizationId: caller.organizationId,
        keyId: caller.keyId,
        endUser: caller.token?.endUser ?? endUser,
        createdAtMs,
        kind,
        path: endpoint.path,
        model: requestedModel,
        status: findStatus(ctx, error.code),
        errorCode: error.code,
        field: field !== null && fieldPattern.test(field) ? field : null,
        requestId,
        durationMs: Math.round(performance.now() - startedAtMs),
      });
    };
    try {
      await next();
    } catch (error) {
      ctx.state.recordRejection?.(toGatewayError(error));
      throw error;
    }
  };
}
