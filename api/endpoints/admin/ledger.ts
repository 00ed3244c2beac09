/** Operator endpoints for ledger entries, open reservations and the ledger audit. */
import { z } from 'zod';
import { violationsShownMax } from '../../../ledger/audit.ts';
import { lastAudit, ledgerEntry, openReservation } from '../../../ledger/ledger-reads.ts';
import { toResponse } from '../../../domain/json.ts';
import { readOrganization } from '../../identity/organizations.ts';
import {
  toData,
  toPage,
  idField,
  listSchema,
  dataSchema,
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
  clean: z.boolean(),
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
    answer: pageSchema(entrySchema),
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
    answer: listSchema(reservationSchema),
    async handle({ query: { organizationId, limit } }, { ledgerReads }) {
      const reservations = await ledgerReads.openReservations({ organizationId, limit });
      return toData(reservations.map(toResponse));
    },
  }),

  getLastAudit: defineEndpoint({
    route: 'GET /api/admin/v1/audit/last',
    summary: 'Get the age and the number of findings of the last ledger audit',
    answer: dataSchema(
      responseSchema(lastAudit).nullable().meta({ description: 'Null if no audit has run yet.' }),
    ),
    async handle(_, { ledgerReads }) {
      const audit = await ledgerReads.lastAudit();
      return toData(audit && toResponse(audit));
    },
  }),

  audit: defineEndpoint({
    route: 'GET /api/admin/v1/audit',
    summary: 'Audit the ledger',
    description: `\`checks\` contains the number of findings of each check; \`findings\` lists at most ${violationsShownMax} ids for each check.`,
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
      const { clean, checks } = await audit({ results: query.results === 'true' });
      return {
        clean,
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
