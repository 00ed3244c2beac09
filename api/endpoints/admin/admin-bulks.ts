/** Operator endpoints that explain the bulk jobs of all organizations. */
import { isArchived } from '../../../ledger/ledger-reads.ts';
import { z } from 'zod';
import { GatewayError } from '../../../domain/errors.ts';
import { toResponse } from '../../../domain/json.ts';
import { addOrganizationNames } from '../../../identity/organizations.ts';
import { bulkRow } from '../../../bulk/bulk-reads.ts';
import type { ExplainedBulk } from '../../../bulk/open-bulks.ts';
import { workflowState } from '../../../executions/workflow-state.ts';
import { defineEndpoint, defineSection } from '../endpoint.ts';
import {
  dataSchema,
  idField,
  listSchema,
  pageLimit,
  pathId,
  responseSchema,
  toData,
} from '../fields.ts';

const path = '/api/admin/v1/bulks';

const shown = {
  organizationId: true,
  status: true,
  stopReason: true,
  total: true,
  waiting: true,
  running: true,
  completed: true,
  failed: true,
  canceled: true,
  createdAtMs: true,
  pausedAtMs: true,
  resumeAtMs: true,
  completedAtMs: true,
} as const;

const explainedBulk = z
  .object({ bulkId: z.string(), ...responseSchema(bulkRow.pick(shown)).shape })
  .extend({
    organizationName: z.string(),
    charged: z.number(),
    reserved: z.number(),
    workflow: workflowState.nullable().meta({ description: 'Null if Temporal cannot be reached.' }),
    why: z.string().meta({ description: 'Why it is open, since when, and what continues it.' }),
  })
  .meta({ id: 'ExplainedBulk' });

const formatBulk = (bulk: ExplainedBulk) =>
  explainedBulk.omit({ organizationName: true }).parse({ ...toResponse(bulk), bulkId: bulk.id });

/** Endpoints that explain bulk jobs. */
export const explainedBulks = defineSection('Outcomes', {
  listOpenBulks: defineEndpoint({
    route: `GET ${path}`,
    summary: 'List open bulk jobs, oldest first, and why they are open',
    request: {
      query: z.strictObject({
        organizationId: idField('organization').optional(),
        limit: pageLimit,
      }),
    },
    response: listSchema(explainedBulk),
    async handle({ query: { organizationId, limit } }, { pool, openBulks }) {
      const rows = await openBulks.list({ organizationId, limit });
      return toData(await addOrganizationNames(pool, rows.map(formatBulk)));
    },
  }),

  explainBulk: defineEndpoint({
    route: `GET ${path}/:bulkId`,
    summary: 'Explain the state of a bulk job',
    request: { params: z.object({ bulkId: pathId('bulk') }) },
    response: dataSchema(explainedBulk),
    errors: ['BULK_NOT_FOUND', 'JOB_ARCHIVED'],
    async handle({ params: { bulkId } }, { pool, openBulks }) {
      const row = await openBulks.find(bulkId);
      if (!row) {
        const archived = await isArchived(pool, bulkId, null);
        throw new GatewayError(archived ? 'JOB_ARCHIVED' : 'BULK_NOT_FOUND');
      }
      const [bulk] = await addOrganizationNames(pool, [formatBulk(row)]);
      if (!bulk) throw new GatewayError('BULK_NOT_FOUND');
      return toData(bulk);
    },
  }),
});
