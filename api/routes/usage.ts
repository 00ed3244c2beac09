/** GET /api/v1/usage: balance, window and usage records of the organization (spec §4.4, design §5). */
import type Router from '@koa/router';
import { z } from 'zod';
import type { UsagePage, UsageReads, UsageRecord } from '../../activities/ledger/usage-reads.ts';
import type { Uploads } from '../../activities/storage/uploads.ts';
import { creditsFromMicro } from '../../domain/credits.ts';
import type { RequestState } from '../context.ts';
import { authorize } from '../middleware/authenticate.ts';
import { parseWith } from '../middleware/body.ts';

/** Query of GET /usage. */
export const usageQuery = z.strictObject({
  after: z.iso
    .datetime({ offset: true })
    .optional()
    .meta({ description: 'Only usage strictly later than this.' }),
  limit: z.coerce.number().int().min(1).max(100).default(20),
  cursor: z
    .string()
    .regex(/^[\w-]{1,200}$/, 'must be the nextCursor of a page')
    .optional()
    .meta({ description: '`nextCursor` of the page before.' }),
  keyId: z
    .string()
    .regex(/^key_[0-9a-f]{32}$/, 'must be the id of a key')
    .optional()
    .meta({ description: 'Only what this key used.' }),
});

/** Adds the route. */
export function addUsageRoutes(
  router: Router<RequestState>,
  { reads, uploads }: { reads: UsageReads; uploads: Pick<Uploads, 'quotaOf'> },
): void {
  router.get('/usage', async (ctx) => {
    authorize(ctx.state.caller, 'usage:read');
    // A bare object: the parsed query has no prototype.
    const { after, ...wanted } = parseWith(usageQuery, { ...ctx.query });
    const { organizationId } = ctx.state.caller;
    const [page, { limit, used }] = await Promise.all([
      reads.page(organizationId, {
        limit: wanted.limit,
        cursor: wanted.cursor,
        keyId: wanted.keyId,
        afterMs: after === undefined ? undefined : Date.parse(after),
      }),
      uploads.quotaOf(organizationId),
    ]);
    ctx.body = {
      ...accountView(page.account),
      storage: { limit, used, remaining: Math.max(0, limit - used) },
      usage: page.records.map(recordView),
      hasMore: page.nextCursor !== null,
      nextCursor: page.nextCursor,
    };
  });
}

/** Balance and window, in credits; also what operators see of an organization. */
export function accountView(account: UsagePage['account']): Record<string, unknown> {
  const available = creditsFromMicro(account.posted - account.reserved);
  const usedMicro = account.window?.used ?? 0;
  const { windowLimit, window } = account;
  return {
    credits: available,
    balance: {
      available,
      reserved: creditsFromMicro(account.reserved),
      total: creditsFromMicro(account.posted),
    },
    window: {
      limit: windowLimit === null ? null : creditsFromMicro(windowLimit),
      used: creditsFromMicro(usedMicro),
      remaining:
        windowLimit === null ? null : creditsFromMicro(Math.max(0, windowLimit - usedMicro)),
      startedAt: window && new Date(window.startedAtMs).toISOString(),
      resetAt: window && new Date(window.resetAtMs).toISOString(),
    },
  };
}

function recordView(record: UsageRecord): Record<string, unknown> {
  return {
    id: record.id,
    type: record.type,
    model: record.model,
    status: record.status,
    credits: creditsFromMicro(record.chargedMicro),
    ...(record.inputTokens !== null && { inputTokens: record.inputTokens }),
    ...(record.outputTokens !== null && { outputTokens: record.outputTokens }),
    ...(record.jobId !== null && { jobId: record.jobId }),
    keyId: record.keyId,
    requestId: record.requestId,
    createdAt: new Date(record.createdAtMs).toISOString(),
  };
}
