/** Operators: the console's session, begun with an operator's key or with the admin key and a name. */
import { z } from 'zod';
import { GatewayError } from '../../../domain/errors.ts';
import { isoTime } from '../../../domain/iso-time.ts';
import { macOfKey } from '../../identity/key-format.ts';
import { bearerKey } from '../../middleware/authenticate.ts';
import { bodySchema } from '../../middleware/body-schema.ts';
import { authority, exampleAuthority, found, oneOf, time } from '../fields.ts';
import { defineOperation, section } from '../operation.ts';

const path = '/api/admin/v1/session';
const { actor } = authority;

/** Begin, end; callers' GET /api/v1/session tells whether there is one. */
export const operatorSession = section('Operators', {
  beginOperatorSession: defineOperation({
    route: `POST ${path}`,
    summary: 'Sign in to the console',
    description:
      'Sets a cookie that stands for the key: signed, HttpOnly, SameSite=Strict, for twelve hours. It may do what the key ' +
      'may, from the console’s own pages, and ends when the key is revoked or replaced. What is done in it is recorded under this name.',
    request: {
      body: bodySchema(z.strictObject({ actor })),
      example: { actor: exampleAuthority.actor },
    },
    answer: oneOf(z.object({ expiresAt: time })),
    answers: { 201: 'The session has begun.' },
    handle({ ctx, body }, { config, operatorSessions }) {
      const key = bearerKey(ctx.req);
      if (key === undefined) throw new GatewayError('Unauthorized');
      const mac = macOfKey(key, config.KEY_PEPPER);
      const { expiresAtMs } = operatorSessions.begin(ctx, { mac, name: body.actor });
      return found({ expiresAt: isoTime(expiresAtMs) });
    },
  }),

  endOperatorSession: defineOperation({
    route: `DELETE ${path}`,
    summary: 'Sign out of the console',
    answer: oneOf(z.object({})),
    handle({ ctx }, { operatorSessions }) {
      operatorSessions.end(ctx);
      return found({});
    },
  }),
});
