/** /api/v1/session: the console's session, begun with a key or with a link that a key has made. */
import { hash, randomBytes } from 'node:crypto';
import { sql } from 'slonik';
import { z } from 'zod';
import { publicBaseUrl } from '../../activities/services.ts';
import { GatewayError } from '../../domain/errors.ts';
import { isoTime } from '../../domain/json.ts';
import { macOfKey } from '../identity/key-format.ts';
import { bearerKey } from '../middleware/authenticate.ts';
import { time } from './fields.ts';
import { defineOperation, section } from './operation.ts';

const path = '/api/v1/session';
const linkLifetimeMs = 3_600_000;

const session = z.object({ expiresAt: time });
const macRow = z.object({ mac: z.string() });
const none = z.object({});

const digest = (token: string): string => hash('sha256', token);

/** Begin, look, end; and the links. */
export const sessions = section('Console', {
  beginSession: defineOperation({
    route: `POST ${path}`,
    scope: 'any',
    summary: 'Sign in to the console with an API key',
    description:
      'Sets a cookie that stands for the key: signed, HttpOnly, SameSite=Strict, for twelve hours. It may do what the key may, ' +
      'from the console’s own pages, and ends when the key is revoked, replaced or expires.',
    answer: session,
    answers: { 201: 'The session has begun.' },
    handle({ ctx }, { config, sessions: ofKeys }) {
      const key = bearerKey(ctx.req);
      if (key === undefined) throw new GatewayError('Unauthorized');
      const { expiresAtMs } = ofKeys.begin(ctx, {
        mac: macOfKey(key, config.KEY_PEPPER),
        name: null,
      });
      return { expiresAt: isoTime(expiresAtMs) };
    },
  }),

  getSession: defineOperation({
    route: `GET ${path}`,
    scope: 'open',
    summary: 'Get the current session, of a key and of an operator',
    answer: z.object({
      session: session.nullable(),
      operator: session.extend({ name: z.string().nullable() }).nullable(),
    }),
    answers: { 200: 'The session; null if there is none.' },
    async handle({ ctx }, { sessions: ofKeys, operatorSessions, access, findOperator }) {
      const known = ofKeys.of(ctx);
      const caller = known && (await access.admitMac(known.mac, 'polls'));
      const begun = operatorSessions.of(ctx);
      const found = begun && (await findOperator.bySession(begun));
      return {
        session: known && caller ? { expiresAt: isoTime(known.expiresAtMs) } : null,
        operator:
          begun && found ? { expiresAt: isoTime(begun.expiresAtMs), name: found.name } : null,
      };
    },
  }),

  endSession: defineOperation({
    route: `DELETE ${path}`,
    scope: 'open',
    summary: 'Sign out of the console',
    answer: z.object({ success: z.literal(true) }),
    handle({ ctx }, { sessions: ofKeys }) {
      ofKeys.end(ctx);
      return { success: true as const };
    },
  }),

  createSignInLink: defineOperation({
    route: `POST ${path}/links`,
    scope: 'any',
    summary: 'Create a link that signs in to the console once',
    description: 'The first to open it, within the hour, gets a session of this key.',
    answer: z.object({ url: z.url(), expiresAt: time }),
    answers: { 201: 'The link. It is shown once.' },
    async handle({ ctx, caller }, { pool, config }) {
      const token = randomBytes(32).toString('base64url');
      const expiresAt = isoTime(Date.now() + linkLifetimeMs);
      await pool.query(sql.type(none)`
        WITH past AS (DELETE FROM sign_in_link WHERE expires_at < clock_timestamp())
        INSERT INTO sign_in_link (token_hash, key_id, expires_at)
        VALUES (decode(${digest(token)}, 'hex'), ${caller.keyId}, ${expiresAt})`);
      ctx.set('Cache-Control', 'no-store');
      // Behind the number sign: it is in no log of a server, and in no Referer.
      return { url: `${publicBaseUrl(config)}/console/sign-in#link=${token}`, expiresAt };
    },
  }),

  useSignInLink: defineOperation({
    route: `POST ${path}/links/use`,
    scope: 'open',
    summary: 'Sign in to the console with a link',
    request: {
      body: z.strictObject({ token: z.string().max(64) }),
      example: { token: 'kXl8Qd0vJ4r1cZt6mWq3bE9yUo5gHs2nFa7iPxTLRVk' },
    },
    answer: session,
    answers: { 201: 'The session has begun.' },
    errors: ['NOT_FOUND'],
    async handle({ ctx, body: { token } }, { pool, sessions: ofKeys }) {
      const found = await pool.maybeOne(sql.type(macRow)`
        DELETE FROM sign_in_link l USING api_key k
        WHERE l.token_hash = decode(${digest(token)}, 'hex') AND l.expires_at > clock_timestamp()
          AND k.id = l.key_id RETURNING encode(k.mac, 'hex') AS mac`);
      if (!found) {
        throw new GatewayError('NOT_FOUND', 'This link was used, or is too old: make another.');
      }
      return { expiresAt: isoTime(ofKeys.begin(ctx, { mac: found.mac, name: null }).expiresAtMs) };
    },
  }),
});
