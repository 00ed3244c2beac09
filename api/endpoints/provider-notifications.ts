/**
 * POST /hooks/…: receives provider notifications. Verifies the URL, signature and time of a
 * notification, stores it, and signals the job to check its call. The state in the payload is never
 * used: the job reads the result from the provider.
 */
import { z } from 'zod';
import { NotificationRejected } from '../../providers/provider.ts';
import { GatewayError } from '../../domain/errors.ts';
import { isId } from '../../domain/ids.ts';
import { correlate } from '../../platform/logger.ts';
import { jobWorkflowId } from '../../domain/job-contract.ts';
import { readBody } from '../http/json-body.ts';
import { defineEndpoint, rawResponse } from './endpoint.ts';

const notificationBytesMax = 1024 * 1024;

/** Endpoint that receives provider notifications. */
export const providerNotifications = defineEndpoint({
  route: 'POST /hooks/:provider/:jobId/:callIndex/:mac',
  scope: 'open',
  request: {
    params: z.object({
      provider: z.string(),
      jobId: z.string(),
      callIndex: z.string(),
      mac: z.string(),
    }),
  },
  response: rawResponse,
  async handle({ ctx, params }, { providers, urls, notificationRelay, logger }) {
    const { provider: name, jobId, callIndex, mac } = params;
    const operations = providers.get(name)?.operations;
    const address = { provider: name, jobId, callIndex: Number(callIndex) };
    const isValid =
      operations && isId('job', jobId) && /^\d{1,3}$/.test(callIndex) && urls.isValid(address, mac);
    if (!isValid) throw new GatewayError('NOT_FOUND');
    correlate({ jobId, workflowId: jobWorkflowId(jobId) });
    const body = await readBody(ctx, notificationBytesMax);
    const headers = Object.fromEntries(
      Object.entries(ctx.headers).map(([header, value]) => [header, value?.toString()]),
    );
    let operationId: string;
    try {
      ({ operationId } = await operations.verify({ headers, body }));
    } catch (error) {
      if (!(error instanceof NotificationRejected)) throw error;
      logger.warn(
        { jobId, provider: name, reason: error.message },
        'provider_notification.rejected',
      );
      throw new GatewayError('Unauthorized');
    }
    await notificationRelay.receive({ ...address, operationId });
    ctx.status = 200;
    ctx.body = { received: true };
  },
});
