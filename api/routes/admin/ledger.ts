/** Operators: credit grants, ledger entries, open reservations and the audit. */
import type Router from '@koa/router';
import { z } from 'zod';
import type { AuditReport } from '../../../activities/audit.ts';
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
import { authority, idField, pageLimit, pageOf, idParam } from './fields.ts';

const grantRequest = z.strictObject({
  ...authority,
  /** Idempotency id: the same id never adds credits twice. */
  id: z.string().regex(/^[\x21-\x7e]{1,100}$/, 'must be 1–100 printable characters'),
  credits: z.number().positive().max(1_000_000_000),
});
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
  router.post('/organizations/:organizationId/grants', (ctx) =>
    grant(ctx, idParam(ctx, 'organizationId', 'organization'), deps),
  );

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

async function grant(
  ctx: Context,
  organizationId: string,
  { pool, ledger }: LedgerRoutesDeps,
): Promise<void> {
  const { credits, ...wanted } = await parseBody(ctx, grantRequest);
  const amountMicro = microFromCredits(credits);
  const granted = await ledger.grant({ ...wanted, organizationId, amountMicro });
  if (granted.verdict === 'no_account') throw new GatewayError('NOT_FOUND');
  if (granted.verdict !== 'granted') throw new GatewayError('IDEMPOTENCY_KEY_REUSED');
  // The grant shares its transaction with other money moves; its own entry names actor and reason too,
  // and a repeated request makes up for a record that a crash prevented here.
  await recordAction(pool, {
    actor: wanted.actor,
    reason: wanted.reason,
    action: 'credits.granted',
    organizationId,
    subject: organizationId,
    details: { id: wanted.id, credits },
    requestId: ctx.state.requestId,
    deedKey: `grant:${organizationId}:${wanted.id}`,
  });
  if (granted.repeated) ctx.set('Idempotent-Replayed', 'true');
  ctx.body = {
    success: true,
    repeated: granted.repeated,
    available: creditsFromMicro(granted.balance.available),
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
