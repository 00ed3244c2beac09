/** Operators: refunds of charged jobs. */
import { z } from 'zod';
import { creditsFromMicro, microFromCredits } from '../../../domain/credits.ts';
import { fieldError, GatewayError } from '../../../domain/errors.ts';
import { received } from '../../../domain/field-messages.ts';
import type { RefundVerdict } from '../../../ledger/ledger.ts';
import { recordAction } from '../../identity/admin-actions.ts';
import { authority, exampleAuthority } from '../fields.ts';
import { defineEndpoint, section } from '../endpoint.ts';
import { creditAmount, moveId, repeatHeaders } from './credits.ts';
import { findAnyJob, actionSubject, jobWrite } from './overseen-job.ts';

/** Endpoint that gives charged credits of a job back. */
export const refunds = section('Jobs', {
  refundJob: defineEndpoint({
    route: 'POST /api/admin/v1/jobs/:jobId/refunds',
    summary: 'Refund charged credits of a job',
    description:
      'The job stays charged and its result stays available. The six-hour window and the budget of the key do not change.',
    request: {
      params: jobWrite.params,
      body: z.strictObject({
        ...authority,
        id: moveId.meta({
          description:
            'Id of the refund, unique within the job; a repeat with the same id moves no credits.',
        }),
        credits: creditAmount.optional().meta({
          description: 'If absent, all charged credits that are not refunded yet.',
        }),
      }),
      example: { ...exampleAuthority, id: 'ticket-7', credits: 1.5 },
    },
    answer: z.object({
      success: z.literal(true),
      repeated: z.boolean(),
      credits: z.number(),
      refunded: z.number(),
      available: z.number(),
    }),
    answers: {
      200: {
        description:
          'The `credits` of this refund are given back. `refunded` is the sum of all refunds of the job, `available` the new available balance.',
        headers: repeatHeaders,
      },
    },
    errors: ['JOB_NOT_FOUND', 'JOB_NOT_REFUNDABLE', 'IDEMPOTENCY_KEY_REUSED'],
    async handle({ ctx, ...write }, { pool, oversight, ledger }) {
      const job = await findAnyJob(write, { oversight });
      const { id: refundId, credits, actor, reason } = write.body;
      const refund = await ledger.refund({
        organizationId: job.organization_id,
        id: job.id,
        refundId,
        amountMicro: credits === undefined ? undefined : microFromCredits(credits),
        actor,
        reason,
      });
      if (refund.verdict === 'mismatch') throw new GatewayError('IDEMPOTENCY_KEY_REUSED');
      if (refund.verdict === 'not_refundable') throw makeRefundError(refund, credits);
      const amountCredits = creditsFromMicro(refund.amount);
      // A crash may prevent this record, as for grants.
      await recordAction(pool, write, {
        ...actionSubject(job),
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

/** Makes the error for a rejected refund: no charged credits are left, or fewer than requested. */
function makeRefundError(
  { state, charged, refunded }: Extract<RefundVerdict, { verdict: 'not_refundable' }>,
  credits: number | undefined,
): GatewayError {
  const left = creditsFromMicro(charged - refunded);
  const amounts = { charged: creditsFromMicro(charged), refunded: creditsFromMicro(refunded) };
  if (left > 0) {
    const limit = `must be at most ${left}, the charged credits that are not refunded yet`;
    return fieldError('INVALID_REQUEST', 'credits', `${limit}${received(credits)}`);
  }
  const message = `Only charged credits can be refunded: the job is ${state}, ${amounts.charged} credits were charged and ${amounts.refunded} refunded.`;
  return new GatewayError('JOB_NOT_REFUNDABLE', message, { body: { state, ...amounts } });
}
