/** Operators: grants and take-backs of credits, ledger entries, open reservations and the audit. */
import { z } from 'zod';
import type { LedgerEntry, OpenReservation } from '../../../ledger/ledger.ts';
import { creditsFromMicro, microFromCredits } from '../../../domain/credits.ts';
import { GatewayError } from '../../../domain/errors.ts';
import { isoTimes } from '../../../domain/json.ts';
import { recordAction } from '../../identity/operators.ts';
import { readOrganization } from '../../identity/organizations.ts';
import { throwRefusal } from '../../../ledger/refusals.ts';
import {
  authority,
  exampleAuthority,
  found,
  foundPage,
  idField,
  listOf,
  pageLimit,
  pageOf,
  pathId,
  time,
} from '../fields.ts';
import { defineEndpoint, section } from '../endpoint.ts';

const path = '/api/admin/v1/organizations/:organizationId';
const params = z.object({ organizationId: pathId('organization') });

const creditsRequest = z.strictObject({
  ...authority,
  id: z
    .string()
    .max(100)
    .regex(/^[\x21-\x7e]{1,100}$/, 'must be 1–100 printable characters')
    .meta({
      description:
        'Unique id of the grant or take-back; a repeat with the same id moves no credits.',
    }),
  credits: z.number().positive().max(1_000_000_000),
});
/** Declares an endpoint that moves credits. Grants and take-backs share their ids: one id is one move. */
const move = (way: { name: string; summary: string; action: string; sign: 1 | -1 }) =>
  defineEndpoint({
    route: `POST ${path}/${way.name}`,
    summary: way.summary,
    request: {
      params,
      body: creditsRequest,
      example: { ...exampleAuthority, id: 'invoice-1', credits: 12.5 },
    },
    answer: z.object({ success: z.literal(true), repeated: z.boolean(), available: z.number() }),
    answers: {
      200: {
        description: 'The credits are moved; `available` is the new available balance.',
        headers: z.object({ 'Idempotent-Replayed': z.literal('true').optional() }),
      },
    },
    errors: ['NOT_FOUND', 'INSUFFICIENT_CREDITS', 'IDEMPOTENCY_KEY_REUSED'],
    async handle({ ctx, params: { organizationId }, ...write }, { pool, ledger }) {
      const { credits, ...moveOfBody } = write.body;
      const amountMicro = way.sign * microFromCredits(credits);
      const moved = await ledger.grant({ ...moveOfBody, organizationId, amountMicro });
      if (moved.verdict === 'no_account') throw new GatewayError('NOT_FOUND');
      if (moved.verdict === 'insufficient_credits') throwRefusal(moved);
      if (moved.verdict === 'mismatch') throw new GatewayError('IDEMPOTENCY_KEY_REUSED');
      // The ledger commits the move together with moves of other requests, so a crash may prevent this record. The
      // ledger entry has the actor and the reason too, and a repeated request adds the record.
      await recordAction(pool, write, {
        action: way.action,
        organizationId,
        subject: organizationId,
        details: { id: moveOfBody.id, credits },
        actionKey: `grant:${organizationId}:${moveOfBody.id}`,
      });
      if (moved.repeated) ctx.set('Idempotent-Replayed', 'true');
      const available = creditsFromMicro(moved.balance.available);
      return { success: true as const, repeated: moved.repeated, available };
    },
  });

/** Schema of a ledger entry; amounts in credits. */
export const entrySchema = z
  .object({
    sequence: z.int(),
    kind: z.enum(['grant', 'reserve', 'charge', 'release']),
    reservationId: z.string().nullable(),
    postedChange: z.number(),
    reservedChange: z.number(),
    postedAfter: z.number(),
    reservedAfter: z.number(),
    actor: z.string().nullable(),
    reason: z.string().nullable(),
    createdAt: time,
  })
  .meta({ id: 'LedgerEntry' });

/** Shows a ledger entry in credits. */
export function entryView(entry: LedgerEntry): z.infer<typeof entrySchema> {
  return {
    ...isoTimes(entry),
    postedChange: creditsFromMicro(entry.postedChange),
    reservedChange: creditsFromMicro(entry.reservedChange),
    postedAfter: creditsFromMicro(entry.postedAfter),
    reservedAfter: creditsFromMicro(entry.reservedAfter),
  };
}

const reservationSchema = z
  .object({
    id: z.string(),
    organizationId: z.string(),
    kind: z.enum(['studio', 'chat']),
    credits: z.number(),
    ageSeconds: z.number(),
    createdAt: time,
    expiresAt: time,
    ownerMissingAt: time.nullable(),
  })
  .meta({ id: 'Reservation' });

function reservationView({ amount, ...open }: OpenReservation): z.infer<typeof reservationSchema> {
  return { ...isoTimes(open), credits: creditsFromMicro(amount) };
}

const auditSchema = z.object({
  clean: z.boolean(),
  chatLossCredits: z.number().meta({
    description:
      'Total credits by which chats exceeded what the balance and the key limit could pay.',
  }),
  findings: z.array(z.object({ finding: z.string(), subject: z.string() })),
  checks: z.array(
    z.object({
      name: z.string(),
      examined: z.int().nullable(),
      found: z.int(),
    }),
  ),
});

/** Endpoints on the ledger. */
export const ledger = section('Credits', {
  grantCredits: move({
    name: 'grants',
    summary: 'Grant credits',
    action: 'credits.granted',
    sign: 1,
  }),
  takeCreditsBack: move({
    name: 'take-backs',
    summary: 'Take back credits that are available',
    action: 'credits.taken_back',
    sign: -1,
  }),

  listLedgerEntries: defineEndpoint({
    route: `GET ${path}/ledger`,
    summary: 'List the ledger entries of an organization, newest first',
    request: {
      params,
      query: z.strictObject({
        limit: pageLimit,
        cursor: z.coerce
          .number()
          .int()
          .min(1)
          .max(Number.MAX_SAFE_INTEGER)
          .optional()
          .meta({ description: '`sequence` of the last entry of the previous page.' }),
      }),
    },
    answer: pageOf(entrySchema),
    errors: ['NOT_FOUND'],
    async handle({ params: names, query: { limit, cursor } }, { pool, ledgerReads }) {
      const { organizationId } = await readOrganization(pool, names.organizationId);
      const rows = await ledgerReads.entries(organizationId, { before: cursor, limit: limit + 1 });
      return foundPage(rows, { limit, cursor: 'sequence', show: entryView });
    },
  }),

  listReservations: defineEndpoint({
    route: 'GET /api/admin/v1/reservations',
    summary: 'List open reservations, oldest first',
    request: {
      query: z.strictObject({
        organizationId: idField('organization').optional(),
        limit: pageLimit,
      }),
    },
    answer: listOf(reservationSchema),
    async handle({ query: { organizationId, limit } }, { ledgerReads }) {
      const open = await ledgerReads.openReservations({ organizationId, limit });
      return found(open.map(reservationView));
    },
  }),

  audit: defineEndpoint({
    route: 'GET /api/admin/v1/audit',
    summary: 'Audit the ledger',
    request: {
      query: z.strictObject({
        results: z
          .enum(['true', 'false'])
          .optional()
          .meta({ description: 'If true, the audit also reads the result of every charged job.' }),
      }),
    },
    answer: auditSchema,
    async handle({ query }, { audit }) {
      const { clean, checks, chatLossMicro } = await audit({ results: query.results === 'true' });
      return {
        clean,
        chatLossCredits: creditsFromMicro(chatLossMicro),
        findings: checks.flatMap(({ name, subjects }) =>
          subjects.map((subject) => ({ finding: name, subject })),
        ),
        checks: checks.map(({ name, examined, subjects }) => ({
          name,
          examined,
          found: subjects.length,
        })),
      };
    },
  }),
});
