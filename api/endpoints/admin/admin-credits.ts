/** Operator endpoints that grant credits to an organization and take credits back. */
import { z } from 'zod';
import { creditsFromMicro, microFromCredits } from '../../../domain/credits.ts';
import { GatewayError } from '../../../domain/errors.ts';
import { recordAction } from '../../../identity/operators.ts';
import { throwRejection } from '../../../ledger/ledger.ts';
import { operatorFields, exampleOperatorFields, pathId } from '../fields.ts';
import { defineEndpoint, defineSection } from '../endpoint.ts';

const path = '/api/admin/v1/organizations/:organizationId';
const params = z.object({ organizationId: pathId('organization') });

/**
 * Schema of the id of a grant, take-back or refund. The operator chooses the id; a repeated request
 * with the same id changes nothing.
 */
export const creditChangeId = z
  .string()
  .max(100)
  .regex(/^[\x21-\x7e]{1,100}$/, 'must be 1–100 printable ASCII characters without spaces');
/** Schema of an amount in credits. */
export const creditAmount = z.number().positive().max(1_000_000_000);
/** Response headers of a credit change: `Idempotent-Replayed` if the request was repeated. */
export const creditChangeHeaders = z.object({
  'Idempotent-Replayed': z.literal('true').optional(),
});

const creditsRequest = z.strictObject({
  ...operatorFields,
  id: creditChangeId.meta({
    description:
      'Unique id of the grant or take-back. A repeated request with the same id changes nothing.',
  }),
  credits: creditAmount,
});
/**
 * Declares an endpoint that adds or deducts credits. A grant and a take-back must not use the same
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
      example: { ...exampleOperatorFields, id: 'invoice-1', credits: 12.5 },
    },
    response: z.object({ success: z.literal(true), repeated: z.boolean(), available: z.number() }),
    responses: {
      200: {
        description: 'The balance has been changed; `available` is the new available balance.',
        headers: creditChangeHeaders,
      },
    },
    errors: ['NOT_FOUND', 'INSUFFICIENT_CREDITS', 'IDEMPOTENCY_KEY_REUSED'],
    async handle({ ctx, params: { organizationId }, ...call }, { pool, ledger }) {
      const { credits, ...grantRequest } = call.body;
      const amountMicro = variant.sign * microFromCredits(credits);
      const grant = await ledger.grant({ ...grantRequest, organizationId, amountMicro });
      if (grant.verdict === 'no_account') throw new GatewayError('NOT_FOUND');
      if (grant.verdict === 'insufficient_credits') throwRejection(grant);
      if (grant.verdict === 'mismatch') throw new GatewayError('IDEMPOTENCY_KEY_REUSED');
      // The action is recorded after the ledger has committed the change, so a crash in between
      // loses the record. The ledger entry also contains the actor and the reason, and repeating
      // the request records the action.
      await recordAction(pool, call, {
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
export const credits = defineSection('Credits', {
  grantCredits: defineCreditsEndpoint({
    name: 'grants',
    summary: 'Grant credits to an organization',
    action: 'credits.granted',
    sign: 1,
  }),
  takeCreditsBack: defineCreditsEndpoint({
    name: 'take-backs',
    summary: 'Take back credits from an organization',
    action: 'credits.taken_back',
    sign: -1,
  }),
});
