/** /api/admin/v1: what operators do, behind the admin key. Every write says who and why. */
import Router from '@koa/router';
import type { AuditReport } from '../../../activities/ledger/audit.ts';
import type { JobReads } from '../../../activities/jobs/job-reads.ts';
import { createJobOversight } from '../../../activities/jobs/job-oversight.ts';
import { createLedgerReads } from '../../../activities/ledger/ledger-reads.ts';
import type { Ledger } from '../../../activities/ledger/ledger.ts';
import type { WebhookRelay } from '../../../activities/webhooks/webhook-relay.ts';
import type { Webhooks } from '../../../activities/webhooks/webhooks.ts';
import { GatewayError } from '../../../domain/errors.ts';
import type { DatabasePool } from '../../../platform/database.ts';
import type { RequestState } from '../../context.ts';
import { bearerKey } from '../../middleware/authenticate.ts';
import { exactPaths, gate } from '../../middleware/gate.ts';
import type { CancelJob } from '../../studio/cancellation.ts';
import type { JobView } from '../../../studio/job-view.ts';
import { addActionRoutes } from './actions.ts';
import { addAdminJobRoutes } from './jobs.ts';
import { addAdminKeyRoutes } from './keys.ts';
import { addLedgerRoutes } from './ledger.ts';
import { addOrganizationRoutes } from './organizations.ts';
import { addOutcomeRoutes, type OutcomeRoutesDeps } from './outcomes.ts';
import { addProcessRoutes } from './processes.ts';
import { addProviderRoutes, type ProviderRoutesDeps } from './providers.ts';
import { createWordCheck } from './secret-word.ts';
import { addUserRoutes } from './users.ts';
import { addAdminWebhookRoutes } from './webhooks.ts';

interface AdminRoutesDeps {
  adminKey: string;
  keyPepper: string;
  pool: DatabasePool;
  ledger: Ledger;
  audit: (options: { results: boolean }) => Promise<AuditReport>;
  reads: JobReads;
  view: JobView;
  cancel: CancelJob;
  webhooks: Webhooks;
  webhookRelay: WebhookRelay;
  oversee: Omit<OutcomeRoutesDeps, 'oversight'> & ProviderRoutesDeps;
}

/** The router of the operators. */
export function createAdminRouter(deps: AdminRoutesDeps): Router<RequestState> {
  const { pool, keyPepper } = deps;
  const router = new Router<RequestState>({ prefix: '/api/admin/v1', ...exactPaths });
  const isOperatorKey = createWordCheck(deps.adminKey);
  addOrganizationRoutes(router, pool);
  addUserRoutes(router, pool);
  addAdminKeyRoutes(router, { pool, keyPepper });
  addLedgerRoutes(router, { ...deps, reads: createLedgerReads(pool) });
  const oversight = createJobOversight(pool);
  addAdminJobRoutes(router, { ...deps, oversight });
  addOutcomeRoutes(router, { ...deps.oversee, oversight });
  addProviderRoutes(router, deps.oversee);
  addProcessRoutes(router, pool);
  addAdminWebhookRoutes(router, { ...deps, oversight });
  addActionRoutes(router, pool);
  gate(router, async (ctx, next) => {
    if (!isOperatorKey(bearerKey(ctx.req))) throw new GatewayError('Unauthorized');
    await next();
  });
  return router;
}
