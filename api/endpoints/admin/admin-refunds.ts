/** Operator endpoint that refunds charged jobs. */
import { z } from 'zod';
import { creditsFromMicro, microFromCredits } from '../../../domain/credits.ts';
import { fieldError, GatewayError } from '../../../domain/errors.ts';
import { formatReceived } from '../../../domain/field-messages.ts';
import type { RefundResult } from '../../../ledger/ledger.ts';
import { recordAction } from '../../../identity/operators.ts';
import { operatorFields, exampleOperatorFields } from '../fields.ts';
import { defineEndpoint, defineSection } from '../endpoint.ts';
import { creditAmount, creditChangeId, creditChangeHeaders } from './admin-credits.ts';
import { findJobOfAnyOrganization, toActionSubject, jobChangeRequest } from '../job-fields.ts';

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
    async handle({ ctx, ...call }, { pool, jobOverview, ledger }) {
      const job = await findJobOfAnyOrganization(call, { jobOverview });
      const { id: refundId, credits, actor, reason } = call.body;
      const refund = await ledger.refund({
        organizationId: job.organizationId,
        id: job.id,
        refundId,
        amountMicro: credits === undefined ? undefined : microFromCredits(credits),
        actor,
        reason,
      });
      // The job was archived after it was found.
      if (refund.verdict === 'not_reserved')
        throw new GatewayError(await jobOverview.missing(job.id));
      if (refund.verdict === 'mismatch') throw new GatewayError('IDEMPOTENCY_KEY_REUSED');
      if (refund.verdict === 'not_refundable') throw refundError(refund, credits);
      const amountCredits = creditsFromMicro(refund.amount);
      // The refund is committed: a crash here loses its record until the request is repeated.
      await recordAction(pool, call, {
        ...toActionSubject(job),
        action: 'job.refunded',
        details: { id: refundId, credits: amountCredits },
        actionKey: `refund:${job.id}:${refundId}`,
      });
      if (refund.repeated) ctx.set('Idempotent-Replayed', 'true');
      return {
        success: true as const,
        repeated: refund.repeated,
        credits: amountCredits,
        refunded: creditsFromMicro(refund.refunded),
        available: creditsFromMicro(refund.balance.available),
      };
    },
  }),
});

/** Returns the error for a rejected refund: nothing is left to refund, or less than requested. */
function refundError(
  { state, charged, refunded }: Extract<RefundResult, { verdict: 'not_refundable' }>,
  credits: number | undefined,
): GatewayError {
  const remainingCredits = creditsFromMicro(charged - refunded);
  const amounts = { charged: creditsFromMicro(charged), refunded: creditsFromMicro(refunded) };
  if (remainingCredits > 0) {
    const requirement = `must be at most ${remainingCredits}, the charged credits that have not been refunded yet`;
    return fieldError('INVALID_REQUEST', 'credits', `${requirement}${formatReceived(credits)}`);
  }
  const message = `Only charged credits can be refunded: the job is ${state}, ${amounts.charged} credits were charged and ${amounts.refunded} refunded.`;
  return new GatewayError('JOB_NOT_REFUNDABLE', message, { body: { state, ...amounts } });
}
