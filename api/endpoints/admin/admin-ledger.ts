/** Operator endpoints for ledger entries, open reservations and the ledger audit. */
import { z } from 'zod';
import { violationsShownMax } from '../../../ledger/audit.ts';
import { lastAudit, ledgerEntry, openReservation } from '../../../ledger/ledger-reads.ts';
import { toResponse } from '../../../domain/json.ts';
import { readOrganization } from '../../../identity/organizations.ts';
import {
  toData,
  toPage,
  idField,
  listSchema,
  pageLimit,
  pageSchema,
  pathId,
  responseSchema,
} from '../fields.ts';
import { defineEndpoint, defineSection } from '../endpoint.ts';

const path = '/api/admin/v1/organizations/:organizationId';
const params = z.object({ organizationId: pathId('organization') });

/** Schema of a ledger entry. Amounts are in credits. */
export const entrySchema = responseSchema(ledgerEntry).meta({ id: 'LedgerEntry' });

const reservationSchema = responseSchema(openReservation).meta({ id: 'Reservation' });

const auditSchema = z.object({
  scope: lastAudit.shape.scope,
  clean: z.boolean(),
  entries: z.int().meta({ description: 'Number of ledger entries that were checked.' }),
  reservations: z.int().meta({ description: 'Number of reservations that were checked.' }),
  findings: z.array(z.object({ finding: z.string(), subject: z.string() })),
  checks: z.array(
    z.object({
      name: z.string(),
      examined: z.int().nullable(),
      found: z.int(),
    }),
  ),
});

/** Endpoints that list ledger entries and reservations, and audit the ledger. */
export const ledger = defineSection('Credits', {
  listLedgerEntries: defineEndpoint({
    route: `GET ${path}/ledger`,
    summary: 'List the ledger entries of an organization, newest first',
    request: {
      params,
      query: z.strictObject({
        kind: entrySchema.shape.kind.optional(),
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
    response: pageSchema(entrySchema),
    errors: ['NOT_FOUND'],
    async handle({ params: { organizationId }, query }, { pool, ledgerReads }) {
      const { kind, limit, cursor } = query;
      await readOrganization(pool, organizationId);
      const rows = await ledgerReads.entries(organizationId, {
        kind,
        before: cursor,
        limit: limit + 1,
      });
      return toPage(rows, { limit, cursor: 'sequence', show: toResponse });
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
    response: listSchema(reservationSchema),
    async handle({ query: { organizationId, limit } }, { ledgerReads }) {
      const reservations = await ledgerReads.openReservations({ organizationId, limit });
      return toData(reservations.map(toResponse));
    },
  }),

  listLastAudits: defineEndpoint({
    route: 'GET /api/admin/v1/audit/last',
    summary: 'Get the time and the result of the last audit of each scope',
    response: listSchema(responseSchema(lastAudit)),
    handle: async (_, { ledgerReads }) => toData((await ledgerReads.lastAudits()).map(toResponse)),
  }),

  audit: defineEndpoint({
    route: 'GET /api/admin/v1/audit',
    summary: 'Audit the ledger',
    description: `The audit checks the ledger entries since the last audit without violations, their reservations, and all open reservations. With \`scope=all\` it checks every row, which takes minutes in a large database; each day a worker does so. \`checks\` contains the number of findings of each check; \`findings\` lists at most ${violationsShownMax} ids for each check.`,
    request: {
      query: z.strictObject({
        scope: lastAudit.shape.scope.prefault('changes'),
        results: z
          .enum(['true', 'false'])
          .optional()
          .meta({ description: 'If true, the audit also reads the result of every charged job.' }),
      }),
    },
    response: auditSchema,
    async handle({ query: { scope, results } }, { audit }) {
      const { checks, clean, entries, reservations } = await audit({
        results: results === 'true',
        scope,
      });
      return {
        scope,
        clean,
        entries,
        reservations,
        findings: checks.flatMap(({ name, subjects }) =>
          subjects.slice(0, violationsShownMax).map((subject) => ({ finding: name, subject })),
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
