/** Operator endpoints that archive old ledger entries, jobs and chats, and check the archive. */
import { z } from 'zod';
import { fieldError } from '../../../domain/errors.ts';
import { formatReceived } from '../../../domain/field-messages.ts';
import { recordAction } from '../../../identity/operators.ts';
import { archive, checkArchive } from '../../../ledger/archive.ts';
import { operatorFields, exampleOperatorFields } from '../fields.ts';
import { defineEndpoint, defineSection } from '../endpoint.ts';

/** Time in milliseconds after which a request begins no further segment. */
const requestMs = 10_000;

const firstOfMonth = z
  .string()
  .max(10)
  .regex(/^\d{4}-(0[1-9]|1[0-2])-01$/, 'must be the first day of a month, such as 2026-01-01');
const segmentCursor = z
  .string()
  .max(60)
  .regex(/^org_[0-9a-f]{32}\.\d{1,15}$/, 'must be the nextCursor of an earlier answer')
  .optional();

/** Parses the first day of a month. @throws GatewayError INVALID_REQUEST if the month before it has not ended */
function parseMonth(before: string, now: Date): number {
  const beforeMs = Date.parse(before);
  const currentMonth = Date.UTC(now.getUTCFullYear(), now.getUTCMonth(), 1);
  if (beforeMs <= currentMonth) return beforeMs;
  const latest = new Date(currentMonth).toISOString().slice(0, 10);
  throw fieldError(
    'INVALID_REQUEST',
    'before',
    `must be at most ${latest}, the first day of this month${formatReceived(before)}`,
  );
}

/** Endpoints of the archive. */
export const archives = defineSection('Ledger', {
  archiveLedger: defineEndpoint({
    route: 'POST /api/admin/v1/archive',
    summary: 'Archive ended jobs and chats',
    description: `Writes the ledger entries from before a month, with the jobs and chats that ended in them, as JSON lines to the store, and removes their rows. Balances and sums of usage stay as they are; an archived job answers 410 \`JOB_ARCHIVED\`. A request works for about ${requestMs / 1000} seconds: repeat it until \`complete\` is true.`,
    request: {
      body: z.strictObject({
        ...operatorFields,
        before: firstOfMonth.meta({
          description: 'First day of the first month that is not archived (UTC).',
        }),
      }),
      example: { ...exampleOperatorFields, before: '2026-01-01' },
    },
    response: z.object({
      success: z.literal(true),
      segments: z.int().meta({ description: 'Number of objects that were written.' }),
      reservations: z.int().meta({ description: 'Number of archived jobs and chats.' }),
      complete: z.boolean(),
    }),
    async handle(call, { config, pool, storage }) {
      const { before } = call.body;
      const beforeMs = parseMonth(before, new Date());
      const sources = { databaseUrl: config.DATABASE_URL, pool, storage };
      const archived = await archive(sources, { beforeMs, timeMs: requestMs });
      await recordAction(pool, call, {
        action: 'ledger.archived',
        subject: before,
        details: { segments: archived.segments, reservations: archived.reservations },
      });
      return { success: true as const, ...archived };
    },
  }),

  checkArchive: defineEndpoint({
    route: 'GET /api/admin/v1/archive/check',
    summary: 'Check the archive',
    description: `Reads archived segments from the store, compares their hashes, and audits their ledger entries, jobs and chats. A request works for about ${requestMs / 1000} seconds; \`nextCursor\` is null after the last segment.`,
    request: { query: z.strictObject({ cursor: segmentCursor }) },
    response: z.object({
      success: z.literal(true),
      segments: z.int(),
      clean: z.boolean(),
      findings: z.array(z.object({ finding: z.string(), subject: z.string() })),
      nextCursor: z.string().nullable(),
    }),
    async handle({ query: { cursor } }, { pool, storage }) {
      const [organizationId = '', sequence] = cursor?.split('.') ?? [];
      const after = cursor === undefined ? null : { organizationId, sequence: Number(sequence) };
      const { next, segments, findings } = await checkArchive(
        { pool, storage },
        { after, timeMs: requestMs },
      );
      const nextCursor = next && `${next.organizationId}.${next.sequence}`;
      return {
        success: true as const,
        segments,
        clean: findings.length === 0,
        findings,
        nextCursor,
      };
    },
  }),
});
