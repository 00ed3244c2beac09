/** Operator endpoints that grant credits to an organization and take them back. */
import { z } from 'zod';
import { creditsFromMicro, microFromCredits } from '../../../domain/credits.ts';
import { GatewayError } from '../../../domain/errors.ts';
import { recordAction } from '../../identity/admin-actions.ts';
import { throwRejection } from '../../../ledger/rejections.ts';
import { auditFields, exampleAuditFields, pathId } from '../fields.ts';
import { defineEndpoint, section } from '../endpoint.ts';

const path = '/api/admin/v1/organizations/:organizationId';
const params = z.object({ organizationId: pathId('organization') });

/**
 * Schema of an id that the operator chooses. A repeated request with the same id changes nothing.
 */
export const uniqueActionId = z
  .string()
  .max(100)
  .regex(/^[\x21-\x7e]{1,100}$/, 'must be 1–100 printable ASCII characters without spaces');
/** Schema of an amount in credits. */
export const creditAmount = z.number().positive().max(1_000_000_000);
/** Response header of a repeated request. */
export const replayHeaders = z.object({ 'Idempotent-Replayed': z.literal('true').optional() });

const creditsRequest = z.strictObject({
  ...auditFields,
  id: uniqueActionId.meta({
    description:
      'Unique id of the grant or take-back. A repeated request with the same id changes nothing.',
  }),
  credits: creditAmount,
});
/**
 * Declares an endpoint that adds or deducts credits. Grants and take-backs must not use the same
 * id.
 */
const defineCreditsEndpoint = (variant: {
  name: string;
  summary: string;
  action: string;
  sign: 1 | -1;
}) =>
  defineEndpoint({
    route: `POST ${path}/${variant.name}`,
    summary: variant.summary,
    request: {
      params,
      body: creditsRequest,
      example: { ...exampleAuditFields, id: 'invoice-1', credits: 12.5 },
    },
    answer: z.object({ success: z.literal(true), repeated: z.boolean(), available: z.number() }),
    answers: {
      200: {
        description: 'The balance has been changed; `available` is the new available balance.',
        headers: replayHeaders,
      },
    },
    errors: ['NOT_FOUND', 'INSUFFICIENT_CREDITS', 'IDEMPOTENCY_KEY_REUSED'],
    async handle({ ctx, params: { organizationId }, ...write }, { pool, ledger }) {
      const { credits, ...grantRequest } = write.body;
      const amountMicro = variant.sign * microFromCredits(credits);
      const grant = await ledger.grant({ ...grantRequest, organizationId, amountMicro });
      if (grant.verdict === 'no_account') throw new GatewayError('NOT_FOUND');
      if (grant.verdict === 'insufficient_credits') throwRejection(grant);
      if (grant.verdict === 'mismatch') throw new GatewayError('IDEMPOTENCY_KEY_REUSED');
      // A crash may prevent this record, because the ledger has already committed the change. The
      // ledger entry also contains the actor and the reason, and a repeated request adds the
      // record.
      await recordAction(pool, write, {
        action: variant.action,
        organizationId,
        subject: organizationId,
        details: { id: grantRequest.id, credits },
        actionKey: `grant:${organizationId}:${grantRequest.id}`,
      });
      if (grant.repeated) ctx.set('Idempotent-Replayed', 'true');
      const available = creditsFromMicro(grant.balance.available);
      return { success: true as const, repeated: grant.repeated, available };
    },
  });

/** Endpoints that change the balance of an organization. */
export const credits = section('Credits', {
  grantCredits: defineCreditsEndpoint({
    name: 'grants',
    summary: 'Grant credits',
    action: 'credits.granted',
    sign: 1,
  }),
  takeCreditsBack: defineCreditsEndpoint({
    name: 'take-backs',
    summary: 'Take back available credits',
    action: 'credits.taken_back',
    sign: -1,
  }),
});
