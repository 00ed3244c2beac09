/** Operators: credits given and taken back, ledger entries, open reservations and the audit. */
import type Router from '@koa/router';
import { z } from 'zod';
import type { AuditReport } from '../../../activities/ledger/audit.ts';
import type {
  LedgerEntry,
  LedgerReads,
  OpenReservation,
} from '../../../activities/ledger/ledger-reads.ts';
import type { Ledger } from '../../../activities/ledger/ledger.ts';
import { creditsFromMicro, microFromCredits } from '../../../domain/credits.ts';
import { GatewayError } from '../../../domain/errors.ts';
import { isoTime } from '../../../domain/iso-time.ts';
import type { DatabasePool } from '../../../platform/database.ts';
import type { Context, RequestState } from '../../context.ts';
import { recordAction } from '../../identity/admin-actions.ts';
import { readOrganization } from '../../identity/organizations.ts';
import { parseBody, parseWith } from '../../middleware/body.ts';
import { bodySchema } from '../../middleware/body-schema.ts';
import { throwRefusal } from '../../studio/refusals.ts';
import { authority, idField, pageLimit, pageOf, idParam } from './fields.ts';

const creditsRequest = bodySchema(
  z.strictObject({
    ...authority,
    /** Idempotency id: the same id never moves credits twice. */
    id: z
      .string()
      .max(100)
      .regex(/^[\x21-\x7e]{1,100}$/, 'must be 1–100 printable characters'),
    credits: z.number().positive().max(1_000_000_000),
  }),
);
/** What an operator can do to a balance. Both share their ids: one id is one move. */
const ways = [
  { path: 'grants', action: 'credits.granted', sign: 1 },
  /** Of what is there and not reserved; never below that. */
  { path: 'take-backs', action: 'credits.taken_back', sign: -1 },
] as const;
type Way = (typeof ways)[number];

const entryListing = z.strictObject({
  limit: pageLimit,
  /** The sequence of the last entry seen. */
  cursor: z.coerce.number().int().min(1).max(Number.MAX_SAFE_INTEGER).optional(),
});
const reservationListing = z.strictObject({
  organizationId: idField('organization').optional(),
  limit: pageLimit,
});

const auditRequest = z.strictObject({
  /** Also reads every result that was paid for. */
  results: z.enum(['true', 'false']).optional(),
});

interface LedgerRoutesDeps {
  pool: DatabasePool;
  audit: (options: { results: boolean }) => Promise<AuditReport>;
  ledger: Ledger;
  reads: LedgerReads;
}

/** Adds the routes. */
export function addLedgerRoutes(router: Router<RequestState>, deps: LedgerRoutesDeps): void {
  for (const way of ways) {
    router.post(`/organizations/:organizationId/${way.path}`, (ctx) => {
      const organizationId = idParam(ctx, 'organizationId', 'organization');
      return move(ctx, { organizationId, way }, deps);
    });
  }

  router.get('/organizations/:organizationId/ledger', async (ctx) => {
    const { limit, cursor } = parseWith(entryListing, { ...ctx.query });
    const { organizationId } = await readOrganization(
      deps.pool,
      idParam(ctx, 'organizationId', 'organization'),
    );
    const entries = await deps.reads.entries(organizationId, { before: cursor, limit: limit + 1 });
    const { page, ...rest } = pageOf(entries, limit, (last) => String(last.sequence));
    ctx.body = { success: true, data: page.map(entryView), ...rest };
  });

  router.get('/reservations', async (ctx) => {
    const { organizationId, limit } = parseWith(reservationListing, { ...ctx.query });
    const open = await deps.reads.openReservations({ organizationId, limit });
    ctx.body = { success: true, data: open.map(reservationView) };
  });

  router.get('/audit', async (ctx) => {
    const { results } = parseWith(auditRequest, { ...ctx.query });
    const { clean, checks } = await deps.audit({ results: results === 'true' });
    ctx.body = {
      clean,
      findings: checks.flatMap(({ name, subjects }) =>
        subjects.map((subject) => ({ finding: name, subject })),
      ),
      checks: checks.map(({ name, examined, subjects }) => ({
        name,
        examined,
        found: subjects.length,
      })),
    };
  });
}

async function move(
  ctx: Context,
  { organizationId, way }: { organizationId: string; way: Way },
  { pool, ledger }: LedgerRoutesDeps,
): Promise<void> {
  const { credits, ...wanted } = await parseBody(ctx, creditsRequest);
  const amountMicro = way.sign * microFromCredits(credits);
  const moved = await ledger.grant({ ...wanted, organizationId, amountMicro });
  if (moved.verdict === 'no_account') throw new GatewayError('NOT_FOUND');
  if (moved.verdict === 'insufficient_credits') throwRefusal(moved);
  if (moved.verdict === 'mismatch') throw new GatewayError('IDEMPOTENCY_KEY_REUSED');
  // The move shares its transaction with other money moves; its own entry names actor and reason too,
  // and a repeated request makes up for a record that a crash prevented here.
  await recordAction(pool, {
    actor: wanted.actor,
    reason: wanted.reason,
    action: way.action,
    organizationId,
    subject: organizationId,
    details: { id: wanted.id, credits },
    requestId: ctx.state.requestId,
    deedKey: `grant:${organizationId}:${wanted.id}`,
  });
  if (moved.repeated) ctx.set('Idempotent-Replayed', 'true');
  ctx.body = {
    success: true,
    repeated: moved.repeated,
    available: creditsFromMicro(moved.balance.available),
  };
}

function entryView(entry: LedgerEntry): Record<string, unknown> {
  return {
    sequence: entry.sequence,
    kind: entry.kind,
    reservationId: entry.reservationId,
    postedChange: creditsFromMicro(entry.postedChange),
    reservedChange: creditsFromMicro(entry.reservedChange),
    postedAfter: creditsFromMicro(entry.postedAfter),
    reservedAfter: creditsFromMicro(entry.reservedAfter),
    actor: entry.actor,
    reason: entry.reason,
    createdAt: isoTime(entry.createdAtMs),
  };
}

function reservationView(open: OpenReservation): Record<string, unknown> {
  return {
    id: open.id,
    organizationId: open.organizationId,
    kind: open.kind,
    credits: creditsFromMicro(open.amount),
    ageSeconds: open.ageSeconds,
    createdAt: isoTime(open.createdAtMs),
    expiresAt: isoTime(open.expiresAtMs),
    ownerMissingAt: isoTime(open.ownerMissingAtMs),
  };
}
