/** /api/v1/end-users/{endUser}/tokens: makes, lists and revokes browser tokens. */
import { z } from 'zod';
import { endUserSchema } from '../../domain/end-users.ts';
import {
  browserToken,
  createBrowserToken,
  tokenScope,
  tokenSecondsMax,
  tokensMax,
} from '../../identity/browser-tokens.ts';
import { keyLimit, keyModels } from '../../identity/keys.ts';
import { defineCreation } from './creation.ts';
import { defineEndpoint, defineSection } from './endpoint.ts';
import { dataSchema, toData } from './fields.ts';

const path = '/api/v1/end-users/:endUser/tokens';
const params = z.object({ endUser: endUserSchema });
const viewerError = 'A viewer may not manage browser tokens.';

/** Endpoints of browser tokens. */
export const endUserTokens = defineSection('End users', {
  createBrowserToken: defineCreation({
    route: `POST ${path}`,
    scope: 'keys:write',
    viewerError,
    summary: 'Make a token with which a web page acts for an end user',
    description:
      'The token starts Studio jobs and chats for this end user, uploads files, and sees, cancels and deletes only what belongs to the end user. ' +
      'It spends within the limits of the end user and of the key that makes it, and ends with that key. ' +
      `An end user can have at most ${tokensMax} valid tokens.`,
    request: {
      params,
      body: z.strictObject({
        expiresInSeconds: z
          .int()
          .min(1)
          .max(tokenSecondsMax)
          .default(900)
          .meta({ description: 'Lifetime of the token; 15 minutes by default.' }),
        scopes: z
          .array(tokenScope)
          .min(1)
          .max(tokenScope.options.length)
          .refine((list) => new Set(list).size === list.length, 'must not repeat a scope')
          .optional()
          .meta({ description: 'By default, those of the key that a token can have.' }),
        allowedModels: keyModels.nullish().meta({ description: 'By default, those of the key.' }),
        maxCredits: keyLimit.shape.credits
          .nullish()
          .meta({ description: 'Maximum credits that can be spent with the token.' }),
      }),
      example: { expiresInSeconds: 900, scopes: ['studio:image', 'studio:read'], maxCredits: 20 },
    },
    response: dataSchema(
      browserToken
        .extend({
          token: z.string().meta({ description: 'The secret token. It is shown only once.' }),
        })
        .meta({ id: 'IssuedBrowserToken' }),
    ),
    created: 'The token. Repeated requests with the same Idempotency-Key return the same one.',
    errors: ['KEY_QUOTA_REACHED', 'NOT_FOUND'],
    create: async ({ caller: maker, params: { endUser }, body }, { config }, connection) =>
      toData(await createBrowserToken(connection, config.KEY_PEPPER, { ...body, maker, endUser })),
  }),

  listBrowserTokens: defineEndpoint({
    route: `GET ${path}`,
    scope: 'keys:read',
    summary: 'List the valid tokens of an end user, newest first',
    request: { params },
    response: dataSchema(z.array(browserToken)),
    errors: ['NOT_FOUND'],
    handle: async ({ caller: { organizationId }, params: { endUser } }, { browserTokens }) =>
      toData(await browserTokens.list({ organizationId, endUser })),
  }),

  revokeBrowserTokens: defineEndpoint({
    route: `DELETE ${path}`,
    scope: 'keys:write',
    viewerError,
    summary: 'Revoke all tokens of an end user',
    description:
      'Running jobs and chats go on. New requests are rejected at once, and event streams end within seconds.',
    request: { params },
    response: dataSchema(
      z.object({
        endUser: z.string(),
        revoked: z.int().meta({ description: 'Number of tokens that were valid.' }),
      }),
    ),
    errors: ['NOT_FOUND'],
    async handle({ caller: { organizationId }, params: { endUser } }, { browserTokens }) {
      return toData({
        endUser,
        revoked: await browserTokens.revokeAll({ organizationId, endUser }),
      });
    },
  }),
});
