/** /api/admin/v1: what operators do, behind the admin key. */
import { createHash, timingSafeEqual } from 'node:crypto';
import type Router from '@koa/router';
import { z } from 'zod';
import type { Ledger } from '../../activities/ledger/ledger.ts';
import { creditsFromMicro, microFromCredits } from '../../domain/credits.ts';
import { GatewayError } from '../../domain/errors.ts';
import type { Context, RequestState } from '../context.ts';
import { parseBody } from '../middleware/body.ts';

/** Hashed before comparing: equal lengths, and no time that depends on the key. */
function digest(word: string): Buffer {
  return createHash('sha256').update(word).digest();
}

interface AdminRoutesDeps {
  adminKey: string;
  ledger: Ledger;
}

const grantRequest = z.strictObject({
  /** Idempotency id: the same id never adds credits twice. */
  id: z.string().min(1).max(100),
  credits: z.number().positive().max(1_000_000_000),
  actor: z.string().min(1).max(100),
  reason: z.string().min(1).max(500),
});

/** Adds the admin routes. */
export function addAdminRoutes(router: Router<RequestState>, deps: AdminRoutesDeps): void {
  function requireAdmin(ctx: Context): void {
    const given = /^Bearer (\S+)$/.exec(ctx.get('authorization'))?.[1] ?? '';
    if (!timingSafeEqual(digest(given), digest(deps.adminKey))) {
      throw new GatewayError('Unauthorized');
    }
  }

  router.post('/api/admin/v1/organizations/:organizationId/grants', async (ctx) => {
    requireAdmin(ctx);
    const { credits, ...grant } = await parseBody(ctx, grantRequest);
    const organizationId = String(ctx.params['organizationId']);
    const amountMicro = microFromCredits(credits);
    const granted = await deps.ledger.grant({ ...grant, organizationId, amountMicro });
    if (granted.verdict === 'no_account') throw new GatewayError('NOT_FOUND');
    if (granted.verdict !== 'granted') throw new GatewayError('IDEMPOTENCY_KEY_REUSED');
    ctx.body = {
      success: true,
      repeated: granted.repeated,
      available: creditsFromMicro(granted.balance.available),
    };
  });

  router.get('/api/admin/v1/audit', async (ctx) => {
    requireAdmin(ctx);
    const findings = await deps.ledger.audit();
    ctx.body = { clean: findings.length === 0, findings };
  });
}
