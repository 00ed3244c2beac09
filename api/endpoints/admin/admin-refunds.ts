/** Operator endpoint that refunds charged jobs. */
import { z } from 'zod';
import { creditsFromMicro } from '../../../domain/credits.ts';
import { operatorFields, exampleOperatorFields } from '../fields.ts';
import { defineEndpoint, defineSection } from '../endpoint.ts';
import { creditAmount, creditChangeId, creditChangeHeaders } from './admin-credits.ts';
import { findJobOfAnyOrganization, jobChangeRequest } from '../job-fields.ts';

/** Endpoint that refunds a job, in full or in part. */
export const refunds = defineSection('Jobs', {
  refundJob: defineEndpoint({
    route: 'POST /api/admin/v1/jobs/:jobId/refunds',
    summary: 'Refund charged credits of a job',
    description:
      'The job remains charged and its result remains available. The refunded credits still count toward the six-hour usage and the key limit.',
    request: {
      params: jobChangeRequest.params,
      body: z.strictObject({
        ...operatorFields,
        id: creditChangeId.meta({
          description:
            'Id of the refund, unique within the job. A repeated request with the same id refunds nothing more.',
        }),
        credits: creditAmount.optional().meta({
          description: 'Credits to refund. Defaults to all that are charged and not yet refunded.',
        }),
      }),
      example: { ...exampleOperatorFields, id: 'ticket-7', credits: 1.5 },
    },
    response: z.object({
      success: z.literal(true),
      repeated: z.boolean(),
      credits: z.number(),
      refunded: z.number(),
      available: z.number(),
    }),
    responses: {
      200: {
        description:
          '`credits` is the amount of this refund, `refunded` the sum of all refunds of the job, and `available` the new available balance.',
        headers: creditChangeHeaders,
      },
    },
    errors: ['JOB_NOT_FOUND', 'JOB_ARCHIVED', 'JOB_NOT_REFUNDABLE', 'IDEMPOTENCY_KEY_REUSED'],
    async handle({ ctx, ...call }, { jobOverview, jobActions }) {
      const job = await findJobOfAnyOrganization(call, { jobOverview });
      const { id: refundId, credits } = call.body;
      const refund = await jobActions.refund(job, call, { refundId, credits });
      if (refund.repeated) ctx.set('Idempotent-Replayed', 'true');
      return {
        success: true as const,
        repeated: refund.repeated,
        credits: creditsFromMicro(refund.amount),
        refunded: creditsFromMicro(refund.refunded),
        available: creditsFromMicro(refund.balance.available),
      };
    },
  }),
});
