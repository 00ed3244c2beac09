/** Operator endpoints that perform an action on many jobs: as a dry run, or by a workflow. */
import { z } from 'zod';
import { creditsFromMicro } from '../../../domain/credits.ts';
import { fieldError, GatewayError } from '../../../domain/errors.ts';
import { toResponse } from '../../../domain/json.ts';
import {
  actionNames,
  actionRunRecord,
  rejectedJob,
  type ActionRunRecord,
} from '../../../studio/jobs/action-runs.ts';
import type { Composition } from '../../composition.ts';
import { idempotencyHeader, parseIdempotencyKey } from '../../http/request-headers.ts';
import { defineEndpoint, defineSection } from '../endpoint.ts';
import {
  dataSchema,
  exampleOperatorFields,
  idField,
  operatorFields,
  operatorFieldsBody,
  pageLimit,
  pageSchema,
  pathId,
  responseSchema,
  toData,
  toPage,
  toRecordFilter,
} from '../fields.ts';
import { jobConditions } from './admin-jobs.ts';

const path = '/api/admin/v1/bulk-actions';
const rejectionsShownMax = 100;
const params = z.object({ bulkActionId: pathId('actionRun') });

const filter = z
  .strictObject({
    ...jobConditions,
    olderThanSeconds: z.int().min(0).max(31_536_000).optional().meta({
      description: 'Only jobs that were created at least this many seconds ago.',
    }),
    bulkId: idField('bulk').optional().meta({ description: 'Only jobs of this bulk job.' }),
    jobIds: z
      .array(idField('job'))
      .min(1)
      .max(1000)
      .optional()
      .meta({ description: 'Only these jobs, also those that the action cannot change.' }),
  })
  .refine((conditions) => Object.keys(conditions).length > 0, 'must have at least one condition')
  .meta({
    minProperties: 1,
    description:
      'Conditions that all chosen jobs fulfil. Without `jobIds`, only jobs that the action can change are chosen.',
  });

const body = z.strictObject({
  ...operatorFields,
  action: z.enum(actionNames),
  filter,
  dryRun: z.boolean().default(true).meta({ description: 'If true, nothing is changed.' }),
  release: z.boolean().default(false).meta({
    description:
      'Only for `resettle`: releases the credits of jobs that cannot be continued, even if their provider may still deliver outputs.',
  }),
  jobsMax: z.int().min(1).max(10_000).default(1000).meta({
    description: 'The request is rejected if more jobs are chosen.',
  }),
  perSecond: z.int().min(1).max(50).default(10).meta({
    description: 'Maximum number of jobs per second.',
  }),
});

const actionRunSchema = responseSchema(actionRunRecord.omit({ creditsMicro: true, request: true }))
  .extend({
    credits: z.number().meta({
      description: 'Reserved credits of the jobs, or their charged credits that were not refunded.',
    }),
    request: z.record(z.string(), z.unknown()),
  })
  .meta({ id: 'BulkAction' });
const progressSchema = actionRunSchema
  .extend({
    rejections: z.array(rejectedJob).meta({
      description: 'The first 100 jobs on which the action was not possible, and why.',
    }),
  })
  .meta({ id: 'BulkActionProgress' });
const previewSchema = z
  .object({
    dryRun: z.literal(true),
    action: z.enum(actionNames),
    jobs: z.int().meta({ description: 'Number of chosen jobs.' }),
    applicable: z.int().meta({ description: 'Number of them that the action can change.' }),
    credits: z.number().meta({ description: 'Credits of the jobs that the action can change.' }),
    sample: z.array(z.string()).meta({ description: 'Ids of the first ten jobs.' }),
  })
  .meta({ id: 'BulkActionPreview' });

const formatActionRun = ({ creditsMicro, ...row }: ActionRunRecord) =>
  actionRunSchema.parse({ ...toResponse(row), credits: creditsFromMicro(creditsMicro) });

async function readProgress(
  { bulkActionId }: z.infer<typeof params>,
  { actionRuns }: Pick<Composition, 'actionRuns'>,
): Promise<z.infer<typeof progressSchema>> {
  const row = await actionRuns.find(bulkActionId);
  if (!row) throw new GatewayError('NOT_FOUND', 'No such bulk action.');
  const rejections = await actionRuns.rejections(bulkActionId, rejectionsShownMax);
  return { ...formatActionRun(row), rejections: [...rejections] };
}

/** Endpoints of action runs, which callers of the API know as bulk actions. */
export const actionRunEndpoints = defineSection('Jobs', {
  startBulkAction: defineEndpoint({
    route: `POST ${path}`,
    summary: 'Cancel, reverify, resettle, redeliver or refund many jobs',
    description:
      'By default a dry run, which returns the number of chosen jobs and their credits. Otherwise, a workflow performs and records the same action on each job as the endpoint of a single job. A job on which the action is not possible does not stop the others.',
    request: {
      headers: idempotencyHeader,
      body,
      example: {
        ...exampleOperatorFields,
        action: 'cancel',
        filter: { provider: 'fal', olderThanSeconds: 3600 },
      },
    },
    response: dataSchema(z.union([progressSchema, previewSchema])),
    responses: { 200: 'A dry run: nothing was changed.', 202: 'The bulk action was started.' },
    async handle({ ctx, operator, ...call }, services) {
      const { action, filter: conditions, dryRun, release, jobsMax, perSecond } = call.body;
      if (release && action !== 'resettle')
        throw fieldError('INVALID_REQUEST', 'release', 'must be false, except for `resettle`');
      const choice = { ...conditions, ...toRecordFilter(conditions) };
      const request = z
        .record(z.string(), z.json())
        .parse({ filter: conditions, release, perSecond });
      const order = { action, choice, jobsMax, perSecond, request };
      const key = parseIdempotencyKey(ctx);
      if (dryRun) {
        const { creditsMicro, ...preview } = await services.actionRuns.preview(order);
        const credits = creditsFromMicro(creditsMicro);
        return toData({ dryRun: true as const, action, ...preview, credits });
      }
      const requestKey = key && `${operator.operatorId ?? 'admin'}:${key}`;
      const { id, repeated } = await services.actionRuns.start(order, { ...call, requestKey });
      if (repeated) ctx.set('Idempotent-Replayed', 'true');
      ctx.status = 202;
      return toData(await readProgress({ bulkActionId: id }, services));
    },
  }),

  listBulkActions: defineEndpoint({
    route: `GET ${path}`,
    summary: 'List bulk actions, newest first',
    request: {
      query: z.strictObject({ limit: pageLimit, cursor: idField('actionRun').optional() }),
    },
    response: pageSchema(actionRunSchema),
    async handle({ query: { limit, cursor } }, services) {
      const rows = await services.actionRuns.list({ beforeId: cursor, limit: limit + 1 });
      return toPage(rows, { limit, cursor: 'bulkActionId', show: formatActionRun });
    },
  }),

  getBulkAction: defineEndpoint({
    route: `GET ${path}/:bulkActionId`,
    summary: 'Get the progress of a bulk action, and the jobs on which it was not possible',
    request: { params },
    response: dataSchema(progressSchema),
    errors: ['NOT_FOUND'],
    handle: async (call, services) => toData(await readProgress(call.params, services)),
  }),

  cancelBulkAction: defineEndpoint({
    route: `POST ${path}/:bulkActionId/cancel`,
    summary: 'Cancel a bulk action',
    description: 'The waiting jobs stay unchanged. An ended bulk action does not change.',
    request: { params, body: operatorFieldsBody },
    response: dataSchema(progressSchema),
    errors: ['NOT_FOUND'],
    async handle(call, services) {
      await services.actionRuns.cancel(call.params.bulkActionId, call);
      return toData(await readProgress(call.params, services));
    },
  }),
});
