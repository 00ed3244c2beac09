/** GET /api/v1/usage: returns the balance, the six-hour usage and the usage records (spec §4.4). */
import { z } from 'zod';
import { endUserShown, splitEndUser } from '../../domain/end-users.ts';
import type { UsagePage, UsageRecord } from '../../ledger/usage-records.ts';
import { creditsFromMicro } from '../../domain/credits.ts';
import { isoTime } from '../../domain/json.ts';
import { time, jobType, recordFilter, toRecordFilter } from './fields.ts';
import { defineEndpoint, defineSection } from './endpoint.ts';

/** Query parameters that filter usage records. */
export const usageFilter = {
  ...recordFilter,
  type: jobType.optional().meta({
    description: 'Return only records of this type: `chat`, or the type of a Studio job.',
  }),
  status: z.enum(['reserved', 'charged', 'released']).optional(),
};
const query = z.strictObject({
  ...usageFilter,
  limit: z.coerce.number().int().min(1).max(100).default(20),
  cursor: z
    .string()
    .regex(/^[\w-]{1,200}$/, 'must be the nextCursor of an earlier page')
    .optional()
    .meta({ description: '`nextCursor` of the previous page.' }),
});

/** Schema of the usage record of a job or chat. */
export const usageRecord = z
  .object({
    id: z.string(),
    type: z.string().meta({ description: '`chat`, or the type of the Studio job.' }),
    model: z.string().nullable(),
    status: z.enum(['reserved', 'charged', 'released']),
    credits: z.number().meta({
      description: 'Credits charged, less refunds; 0 if the status is `reserved` or `released`.',
    }),
    refunded: z
      .number()
      .optional()
      .meta({ description: 'Credits refunded. Omitted if there are none.' }),
    inputTokens: z.int().optional(),
    outputTokens: z.int().optional(),
    cachedInputTokens: z.int().optional().meta({
      description: 'Input tokens read from the provider’s prompt cache. Omitted if there are none.',
    }),
    cacheWriteTokens: z.int().optional(),
    reasoningTokens: z.int().optional(),
    jobId: z.string().optional(),
    keyId: z.string().nullable(),
    requestId: z.string().nullable(),
    metadata: z.record(z.string(), z.string()).meta({ description: '`metadata` of the request.' }),
    endUser: endUserShown,
    priceRows: z.array(z.string()).optional().meta({
      description: 'Rows of the price book that set the price. Omitted if the catalog did.',
    }),
    createdAt: time,
  })
  .meta({ id: 'UsageRecord' });

/** Schema of the balance and the six-hour usage, in credits. */
export const accountSchema = z.object({
  credits: z.number().meta({ description: 'Available balance in credits.' }),
  balance: z.object({ available: z.number(), reserved: z.number(), total: z.number() }),
  window: z
    .object({
      limit: z.number().nullable(),
      used: z.number(),
      remaining: z.number().nullable(),
      startedAt: time.nullable(),
      resetAt: time.nullable(),
    })
    .meta({
      description:
        'Studio credits used in the current six-hour window. `limit` is null if there is no limit.',
    }),
});

/** Endpoint that returns the balance and a page of usage records. */
export const usage = defineSection('Usage', {
  getUsage: defineEndpoint({
    route: 'GET /api/v1/usage',
    scope: 'usage:read',
    summary: 'Get the balance, the six-hour usage and the usage records, newest first',
    request: { query },
    response: accountSchema.extend({
      storage: z.object({ limit: z.int(), used: z.int(), remaining: z.int() }).meta({
        description:
          'Storage of uploaded files, in bytes. An upload URL that has not been used yet counts with the maximum size that it accepts.',
      }),
      usage: z.array(usageRecord),
      hasMore: z.boolean(),
      nextCursor: z.string().nullable(),
    }),
    async handle({ caller, query: selection }, { usageReads, uploads }) {
      const { organizationId } = caller;
      const [page, { limit, used }] = await Promise.all([
        usageReads.page(organizationId, {
          limit: selection.limit,
          cursor: selection.cursor,
          type: selection.type,
          status: selection.status,
          ...toRecordFilter(selection),
        }),
        uploads.readQuota(organizationId),
      ]);
      return {
        ...formatAccount(page.account),
        storage: { limit, used, remaining: Math.max(0, limit - used) },
        usage: page.records.map(formatUsageRecord),
        hasMore: page.nextCursor !== null,
        nextCursor: page.nextCursor,
      };
    },
  }),
});

/** Formats the balance and the six-hour usage in credits, for callers and for operators. */
export function formatAccount(account: UsagePage['account']): z.infer<typeof accountSchema> {
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
      startedAt: isoTime(window?.startedAtMs ?? null),
      resetAt: isoTime(window?.resetAtMs ?? null),
    },
  };
}

/** Converts a usage record of a job or chat to its response format, with amounts in credits. */
export function formatUsageRecord(record: UsageRecord): z.infer<typeof usageRecord> {
  const { cachedInputTokens, cacheWriteTokens, reasoningTokens } = record;
  return {
    id: record.id,
    type: record.type,
    model: record.model,
    status: record.status,
    credits: creditsFromMicro(record.creditsMicro),
    ...(record.refundedMicro > 0 && { refunded: creditsFromMicro(record.refundedMicro) }),
    ...(record.inputTokens !== null && { inputTokens: record.inputTokens }),
    ...(record.outputTokens !== null && { outputTokens: record.outputTokens }),
    ...(cachedInputTokens && { cachedInputTokens }),
    ...(cacheWriteTokens && { cacheWriteTokens }),
    ...(reasoningTokens && { reasoningTokens }),
    ...(record.jobId !== null && { jobId: record.jobId }),
    keyId: record.keyId,
    requestId: record.requestId,
    ...splitEndUser(record.metadata),
    ...(record.priceRows && { priceRows: record.priceRows }),
    createdAt: isoTime(record.createdAtMs),
  };
}
