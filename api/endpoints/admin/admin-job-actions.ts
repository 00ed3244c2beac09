/** Operator endpoints that cancel, check or settle a job. */
import { z } from 'zod';
import type { JobRecord } from '../../../studio/jobs/job-reads.ts';
import { workflowState, readWorkflow } from '../../../executions/workflow-state.ts';
import { awaitCancel } from '../../../studio/jobs/job-endings.ts';
import { operatorFields, toData, dataSchema } from '../fields.ts';
import { defineEndpoint, defineSection } from '../endpoint.ts';
import { jobSummary, formatJobSummary } from './admin-jobs.ts';
import { findJobOfAnyOrganization, jobWithOrganization, jobChangeRequest } from '../job-fields.ts';

const path = '/api/admin/v1/jobs';

const jobStateSchema = jobSummary
  .pick({ jobId: true, organizationId: true, status: true, verifying: true, errorCode: true })
  .extend({
    billing: jobSummary.shape.billing.shape.state,
    findings: z.array(
      z.object({
        callIndex: z.int(),
        provider: z.string(),
        verdict: z.string(),
        operation: z.unknown(),
        message: z.string(),
      }),
    ),
  });

function formatJobState(job: JobRecord): Omit<z.infer<typeof jobStateSchema>, 'findings'> {
  const { jobId, organizationId, status, verifying, errorCode, billing } = formatJobSummary(job);
  return {
    jobId,
    organizationId,
    status,
    verifying,
    errorCode,
    billing: billing.state,
  };
}

/** Endpoints that change a job. */
export const jobActionEndpoints = defineSection('Jobs', {
  cancelJob: defineEndpoint({
    route: `POST ${path}/:jobId/cancel`,
    summary: 'Cancel a job',
    request: jobChangeRequest,
    response: dataSchema(jobWithOrganization),
    responses: { 200: 'The job has ended.', 202: 'The provider has not decided the outcome yet.' },
    errors: ['JOB_NOT_FOUND', 'JOB_ARCHIVED', 'JOB_ALREADY_DONE'],
    async handle({ ctx, ...call }, { jobOverview, jobActions, jobWaits, view }) {
      const job = await findJobOfAnyOrganization(call, { jobOverview });
      await jobActions.cancel(job, call);
      const { organizationId } = job;
      const updatedJob = await awaitCancel(jobWaits, job);
      ctx.status = updatedJob.status === 'open' ? 202 : 200;
      return toData({ ...(await view.resource(updatedJob)), organizationId });
    },
  }),

  reverifyJob: defineEndpoint({
    route: `POST ${path}/:jobId/reverify`,
    summary: 'Check the calls of a job at their providers again',
    request: jobChangeRequest,
    response: dataSchema(
      jobStateSchema.extend({
        workflow: workflowState,
        workflowSignaled: z.boolean().meta({
          description: 'True if the running workflow received a signal to check its calls.',
        }),
      }),
    ),
    errors: ['JOB_NOT_FOUND', 'JOB_ARCHIVED'],
    async handle(request, { jobOverview, jobActions, client }) {
      const job = await findJobOfAnyOrganization(request, { jobOverview });
      const checked = await jobActions.reverify(job, request);
      const updatedJob = await findJobOfAnyOrganization(request, { jobOverview });
      const workflow = await readWorkflow(client, job.id);
      return toData({ ...formatJobState(updatedJob), workflow, ...checked });
    },
  }),

  resettleJob: defineEndpoint({
    route: `POST ${path}/:jobId/resettle`,
    summary: 'Settle a job whose workflow no longer exists, based on the outcome at the provider',
    request: {
      params: jobChangeRequest.params,
      body: z.strictObject({
        ...operatorFields,
        release: z.boolean().default(false).meta({
          description:
            'If true, the credits of a job that cannot be continued are released, even if its provider may still deliver outputs.',
        }),
      }),
    },
    response: dataSchema(
      jobStateSchema.extend({ decision: z.enum(['taken_up', 'released', 'already_settled']) }),
    ),
    responses: { 200: 'The job is settled.', 202: 'A new workflow run will complete the job.' },
    errors: [
      'JOB_NOT_FOUND',
      'JOB_ARCHIVED',
      'JOB_ALREADY_DONE',
      'JOB_RUNNING',
      'OUTCOME_UNDECIDED',
    ],
    async handle({ ctx, ...call }, { jobOverview, jobActions }) {
      const job = await findJobOfAnyOrganization(call, { jobOverview });
      const resettlement = await jobActions.resettle(job, call, call.body);
      ctx.status = resettlement.decision === 'taken_up' ? 202 : 200;
      return toData({
        ...formatJobState(await findJobOfAnyOrganization(call, { jobOverview })),
        ...resettlement,
      });
    },
  }),
});
