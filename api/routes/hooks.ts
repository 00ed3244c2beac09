/**
 * POST /hooks/…: providers' webhooks. A notification is verified (address, signature, time), kept, and
 * passed on as a wake-up; its payload is never believed (design §3.5).
 */
import type Router from '@koa/router';
import { NotificationRefused, type Provider } from '../../activities/providers/provider.ts';
import type { NotificationUrls } from '../../activities/providers/notification-url.ts';
import type { NotificationRelay } from '../../activities/inbox/notification-relay.ts';
import type { Inbox } from '../../activities/inbox/notifications.ts';
import { GatewayError } from '../../domain/errors.ts';
import { isId } from '../../domain/ids.ts';
import { correlate } from '../../platform/correlation.ts';
import type { Logger } from '../../platform/logger.ts';
import { workflowIdOf } from '../../jobs/contract.ts';
import type { RequestState } from '../context.ts';
import { readBody } from '../middleware/body.ts';

interface HookRoutesDeps {
  providers: Map<string, Provider>;
  urls: NotificationUrls;
  inbox: Inbox;
  relay: NotificationRelay;
  logger: Logger;
}

const notificationBytesMax = 1024 * 1024;

/** Adds the receiver. */
export function addHookRoutes(router: Router<RequestState>, deps: HookRoutesDeps): void {
  router.post('/hooks/:provider/:jobId/:callIndex/:mac', async (ctx) => {
    const { provider: name = '', jobId = '', callIndex = '', mac = '' } = ctx.params;
    const queue = deps.providers.get(name)?.queue;
    const address = { provider: name, jobId, callIndex: Number(callIndex) };
    const ours =
      queue && isId('job', jobId) && /^\d{1,3}$/.test(callIndex) && deps.urls.holds(address, mac);
    if (!ours) throw new GatewayError('NOT_FOUND');
    correlate({ jobId, workflowId: workflowIdOf(jobId) });
    const body = await readBody(ctx, notificationBytesMax);
    const headers = Object.fromEntries(
      Object.entries(ctx.headers).map(([header, value]) => [header, value?.toString()]),
    );
    let operationId: string;
    try {
      ({ operationId } = await queue.verify({ headers, body }));
    } catch (error) {
      if (!(error instanceof NotificationRefused)) throw error;
      deps.logger.warn({ jobId, provider: name, reason: error.message }, 'notification.refused');
      throw new GatewayError('Unauthorized');
    }
    const notification = { ...address, operationId };
    const known = await deps.inbox.keep(notification);
    ctx.status = 200;
    ctx.body = { received: true };
    if (known === 'new') await deps.relay.deliver(notification);
  });
}
