/** /api/v1/session: signs in to the console with a key or a link, and signs out. */
import { command } from '../../platform/database.ts';
import { hash, randomBytes } from 'node:crypto';
import { sql } from 'slonik';
import { z } from 'zod';
import { publicBaseUrl } from '../../process/services.ts';
import { GatewayError } from '../../domain/errors.ts';
import { isoTime, toResponse } from '../../domain/json.ts';
import { parseBearerKey } from '../middleware/authenticate.ts';
import { pathId, time } from './fields.ts';
import { defineEndpoint, defineSection } from './endpoint.ts';

const path = '/api/v1/session';
const linkLifetimeMs = 3_600_000;

const session = z.object({ expiresAt: time });
const listedSession = session.extend({
  sessionId: z.string(),
  keyId: z.string(),
  userAgent: z
    .string()
    .nullable()
    .meta({ description: 'Browser that signed in: the start of its header `User-Agent`.' }),
  address: z.string().nullable().meta({
    description: 'IP address from which the sign-in reached the API; that of a proxy before it.',
  }),
  createdAt: time,
});
const linkRowSchema = z.object({ keyId: z.string() });

const hashToken = (token: string): string => hash('sha256', token);

/** Endpoints for console sessions and sign-in links. */
export const sessionEndpoints = defineSection('Console', {
  beginSession: defineEndpoint({
    route: `POST ${path}`,
    scope: 'any',
    summary: 'Sign in to the console with an API key',
    description:
      'Sets a cookie (HttpOnly, SameSite=Strict) for a twelve-hour session. The session has the permissions of the key, and ' +
      'works only on the console pages. It ends when you sign out, or when the key expires or is revoked or replaced.',
    response: session,
    responses: { 201: 'The session has begun.' },
    async handle({ ctx, caller: { keyId } }, { sessions }) {
      if (parseBearerKey(ctx.req) === undefined) throw new GatewayError('Unauthorized');
      const { expiresAtMs } = await sessions.begin(ctx, { keyId });
      return { expiresAt: isoTime(expiresAtMs) };
    },
  }),

  getSession: defineEndpoint({
    route: `GET ${path}`,
    scope: 'open',
    summary: 'Get the current console sessions of the browser',
    response: z.object({
      session: session.extend({ sessionId: z.string() }).nullable(),
      operator: session.extend({ name: z.string().nullable() }).nullable(),
    }),
    responses: { 200: 'The sessions of an API key and of an operator; null if there is none.' },
    async handle({ ctx }, { sessions, operatorSessions, access, findOperator }) {
      const keySession = await sessions.find(ctx);
      const caller = keySession && (await access.admitMac(keySession.mac, 'console'));
      const operatorSession = await operatorSessions.find(ctx);
      const operator = operatorSession && (await findOperator.findBySession(operatorSession));
      return {
        session:
          keySession && caller
            ? { sessionId: keySession.sessionId, expiresAt: isoTime(keySession.expiresAtMs) }
            : null,
        operator:
          operatorSession && operator
            ? { expiresAt: isoTime(operatorSession.expiresAtMs), name: operator.name }
            : null,
      };
    },
  }),

  endSession: defineEndpoint({
    route: `DELETE ${path}`,
    scope: 'open',
    summary: 'Sign out of the console',
    response: z.object({ success: z.literal(true) }),
    async handle({ ctx }, { sessions }) {
      await sessions.end(ctx);
      return { success: true as const };
    },
  }),

  createSignInLink: defineEndpoint({
    route: `POST ${path}/links`,
    scope: 'any',
    summary: 'Create a single-use link that signs in to the console',
    description:
      'The first request that uses the link, within one hour, starts a session with the permissions of this key. ' +
      'A sign-in link can be created only with an API key, not in a console session.',
    response: z.object({ url: z.url(), expiresAt: time }),
    responses: { 201: 'The sign-in link. It is shown only once.' },
    errors: ['FORBIDDEN'],
    async handle({ ctx, caller }, { pool, config }) {
      if (parseBearerKey(ctx.req) === undefined) {
        throw new GatewayError(
          'FORBIDDEN',
          'A sign-in link can be created only with an API key, not in a console session.',
        );
      }
      const token = randomBytes(32).toString('base64url');
      const expiresAt = isoTime(Date.now() + linkLifetimeMs);
      await pool.query(command`
        WITH past AS (DELETE FROM sign_in_link WHERE expires_at < clock_timestamp())
        INSERT INTO sign_in_link (token_hash, key_id, expires_at)
        VALUES (decode(${hashToken(token)}, 'hex'), ${caller.keyId}, ${expiresAt})`);
      ctx.set('Cache-Control', 'no-store');
      // The token is in the fragment of the URL, because browsers send a fragment neither to
      // servers nor in the Referer header.
      return { url: `${publicBaseUrl(config)}/console/sign-in#link=${token}`, expiresAt };
    },
  }),

  useSignInLink: defineEndpoint({
    route: `POST ${path}/links/use`,
    scope: 'open',
    summary: 'Sign in to the console with a link',
    request: {
      body: z.strictObject({ token: z.string().max(64) }),
      example: { token: 'kXl8Qd0vJ4r1cZt6mWq3bE9yUo5gHs2nFa7iPxTLRVk' },
    },
    response: session,
    responses: { 201: 'The session has begun.' },
    errors: ['NOT_FOUND'],
    async handle({ ctx, body: { token } }, { pool, sessions }) {
      const link = await pool.maybeOne(sql.type(linkRowSchema)`
        DELETE FROM sign_in_link l USING api_key k
        WHERE l.token_hash = decode(${hashToken(token)}, 'hex') AND l.expires_at > clock_timestamp()
          AND k.id = l.key_id AND k.revoked_at IS NULL
          AND (k.expires_at IS NULL OR k.expires_at > clock_timestamp())
        RETURNING k.id AS "keyId"`);
      if (!link) {
        throw new GatewayError(
          'NOT_FOUND',
          'This sign-in link was already used or has expired. Create another link.',
        );
      }
      const { expiresAtMs } = await sessions.begin(ctx, link);
      return { expiresAt: isoTime(expiresAtMs) };
    },
  }),

  listSessions: defineEndpoint({
    route: 'GET /api/v1/sessions',
    scope: 'keys:read',
    summary: 'List the console sessions of your API keys, newest first',
    response: z.object({ sessions: z.array(listedSession) }),
    async handle({ caller }, { keySessions }) {
      return { sessions: (await keySessions.list(caller.userId)).map(toResponse) };
    },
  }),

  endSessionById: defineEndpoint({
    route: 'DELETE /api/v1/sessions/:sessionId',
    scope: 'keys:write',
    summary: 'End a console session',
    request: { params: z.object({ sessionId: pathId('session') }) },
    response: z.object({ success: z.literal(true), sessionId: z.string() }),
    errors: ['NOT_FOUND'],
    async handle({ caller, params: { sessionId } }, { keySessions }) {
      await keySessions.endById(sessionId, caller.userId);
      return { success: true as const, sessionId };
    },
  }),
});
