/**
 * /api/v1/webhook-endpoints: manages the addresses that receive the events of requests without a
 * `webhookUrl` (docs/webhooks.md).
 */
import { z } from 'zod';
import { assert } from '../../domain/errors.ts';
import { isoTime, toResponse } from '../../domain/json.ts';
import type { Outbound } from '../../platform/outbound.ts';
import { parseWebhookUrl, webhookUrlLengthMax } from '../../studio/requests/webhook-fields.ts';
import {
  createWebhookEndpoints,
  endpointEvent,
  endpointsMax,
  webhookEndpoint,
  type WebhookEndpoint,
} from '../../webhooks/endpoints.ts';
import { createSigningSecrets } from '../../webhooks/signing-secrets.ts';
import { defineCreation } from './creation.ts';
import { defineEndpoint, defineSection } from './endpoint.ts';
import {
  dataSchema,
  listSchema,
  pathId,
  requireChange,
  responseSchema,
  time,
  toData,
  zonedTime,
} from './fields.ts';
import {
  readSecrets,
  rotationRequest,
  secretSchema,
  sendTest,
  testDescription,
  webhookTestResult,
} from './webhook-secret.ts';

const path = '/api/v1/webhook-endpoints';
const params = z.object({ endpointId: pathId('webhookEndpoint') });
const descriptionLengthMax = 200;

const resource = responseSchema(webhookEndpoint)
  .omit({ failingSinceMs: true })
  .extend({
    url: z.url(),
    failingSince: time.nullable().meta({
      description:
        'Time of the first attempt that failed after the last delivery; null if none has.',
    }),
  })
  .meta({ id: 'WebhookEndpoint' });

const show = ({ failingSinceMs, ...endpoint }: WebhookEndpoint) => ({
  ...toResponse(endpoint),
  failingSince: isoTime(failingSinceMs),
});

const settings = {
  url: z
    .string()
    .max(webhookUrlLengthMax)
    .meta({ format: 'uri', description: 'HTTPS URL that receives the events.' }),
  events: z
    .array(endpointEvent)
    .min(1)
    .max(endpointEvent.options.length)
    .refine((events) => new Set(events).size === events.length, 'must not repeat an event')
    .meta({ uniqueItems: true, description: 'Types of the events that are sent.' }),
  description: z.string().max(descriptionLengthMax),
  paused: z.boolean().meta({
    description: 'True to send nothing. The events wait, and are sent when it is false again.',
  }),
};

/** Access is as for creating keys: events contain results, and a secret allows forging webhooks. */
const access = {
  scope: 'keys:write',
  viewerError: 'A viewer may not see or change webhook endpoints.',
} as const;

function checkUrl(url: string, outbound: Outbound): string {
  const parsed = parseWebhookUrl(url, outbound, 'url');
  assert(parsed !== null, 'a required webhook URL is null');
  return parsed;
}

/** Endpoints that manage webhook endpoints. */
export const webhookEndpoints = defineSection('Webhooks', {
  listWebhookEndpoints: defineEndpoint({
    route: `GET ${path}`,
    ...access,
    bucket: 'polls',
    summary: 'List your webhook endpoints with their health, newest first',
    response: listSchema(resource),
    handle: async ({ caller: { organizationId } }, { pool }) =>
      toData((await createWebhookEndpoints(pool).list(organizationId)).map(show)),
  }),

  createWebhookEndpoint: defineCreation({
    route: `POST ${path}`,
    ...access,
    summary: 'Create a webhook endpoint',
    description: `It receives the chosen events of all requests of the organization that have no \`webhookUrl\`. An organization can have at most ${endpointsMax}.`,
    request: {
      body: z.strictObject({
        ...settings,
        description: settings.description.default(''),
        paused: settings.paused.default(false),
      }),
      example: {
        url: 'https://shop.example/hooks/studio',
        events: ['studio.job.completed', 'studio.job.failed'],
      },
    },
    response: dataSchema(resource.extend({ secret: secretSchema.shape.secret })),
    created:
      'The endpoint. Its secret is shown only here, and in the answers to repeated requests with the same Idempotency-Key.',
    errors: ['WEBHOOK_ENDPOINT_QUOTA_REACHED'],
    async create({ caller: { organizationId }, body }, { config, outbound }, connection) {
      const url = checkUrl(body.url, outbound);
      const created = await createWebhookEndpoints(connection).create(organizationId, {
        ...body,
        url,
      });
      const secrets = createSigningSecrets(connection, config.WEBHOOK_SIGNING_SECRET);
      const { secret } = await readSecrets(secrets, created.endpointId);
      return toData({ ...show(created), secret });
    },
  }),

  getWebhookEndpoint: defineEndpoint({
    route: `GET ${path}/:endpointId`,
    ...access,
    bucket: 'polls',
    summary: 'Get a webhook endpoint with its health',
    request: { params },
    response: dataSchema(resource),
    errors: ['NOT_FOUND'],
    handle: async ({ caller: { organizationId }, params: { endpointId } }, { pool }) =>
      toData(show(await createWebhookEndpoints(pool).read({ organizationId, endpointId }))),
  }),

  updateWebhookEndpoint: defineEndpoint({
    route: `PATCH ${path}/:endpointId`,
    ...access,
    summary: 'Change or pause a webhook endpoint',
    description:
      'Fields that you omit stay. Webhooks that are still to be delivered are sent to the new URL.',
    request: {
      params,
      body: requireChange(z.strictObject(settings).partial()),
      example: { paused: true },
    },
    response: dataSchema(resource),
    errors: ['NOT_FOUND'],
    async handle(call, { pool, outbound }) {
      const { caller, params: ids, body } = call;
      const { url, ...rest } = body;
      const changes = { ...rest, ...(url !== undefined && { url: checkUrl(url, outbound) }) };
      const { organizationId } = caller;
      const endpoints = createWebhookEndpoints(pool);
      return toData(show(await endpoints.update({ organizationId, ...ids }, changes)));
    },
  }),

  deleteWebhookEndpoint: defineEndpoint({
    route: `DELETE ${path}/:endpointId`,
    ...access,
    summary: 'Delete a webhook endpoint',
    description: 'Its webhooks that were not delivered yet are not sent any more.',
    request: { params },
    response: z.object({ success: z.literal(true), endpointId: z.string() }),
    errors: ['NOT_FOUND'],
    async handle({ caller: { organizationId }, params: { endpointId } }, { pool }) {
      await createWebhookEndpoints(pool).remove({ organizationId, endpointId });
      return { success: true as const, endpointId };
    },
  }),

  rotateWebhookEndpointSecret: defineCreation({
    route: `POST ${path}/:endpointId/rotate`,
    ...access,
    summary: 'Rotate the secret of a webhook endpoint',
    description:
      'For `overlapSeconds` (default: one day), webhooks are signed with both secrets. With 0, the old secret is no longer used.',
    request: { params, ...rotationRequest },
    response: secretSchema,
    created: 'The new secret. It is shown only here.',
    errors: ['NOT_FOUND'],
    async create(call, { config }, connection) {
      const { caller, params: ids, body } = call;
      const { organizationId } = caller;
      await createWebhookEndpoints(connection).read({ organizationId, ...ids });
      const secrets = createSigningSecrets(connection, config.WEBHOOK_SIGNING_SECRET);
      await secrets.rotate(ids.endpointId, body.overlapSeconds * 1000);
      return readSecrets(secrets, ids.endpointId);
    },
  }),

  testWebhookEndpoint: defineEndpoint({
    route: `POST ${path}/:endpointId/test`,
    ...access,
    summary: 'Send a test webhook to a webhook endpoint',
    description: testDescription,
    request: { params },
    response: dataSchema(webhookTestResult),
    errors: ['NOT_FOUND'],
    async handle({ caller: { organizationId }, params: { endpointId }, requestId }, services) {
      const endpoints = createWebhookEndpoints(services.pool);
      const { url } = await endpoints.read({ organizationId, endpointId });
      const deps = { ...services, organizationId, requestId };
      return toData(await sendTest(deps, { url, ownerId: endpointId }));
    },
  }),

  replayWebhookEndpoint: defineEndpoint({
    route: `POST ${path}/:endpointId/replay`,
    ...access,
    summary: 'Send the undelivered webhooks of a webhook endpoint again',
    description:
      'Sends those that failed, or wait for their next attempt, and whose last attempt was not before `since`. They are sent within about ten seconds, with the same `webhook-id`.',
    request: {
      params,
      body: z.strictObject({ since: zonedTime }),
      example: { since: '2026-11-21T10:00:00Z' },
    },
    response: dataSchema(
      z.object({ replayed: z.int().meta({ description: 'Number of webhooks that are sent.' }) }),
    ),
    responses: { 202: 'The webhooks will be sent.' },
    errors: ['NOT_FOUND'],
    async handle(call, { pool, webhooks }) {
      const { caller, params: ids, body } = call;
      const { organizationId } = caller;
      await createWebhookEndpoints(pool).read({ organizationId, ...ids });
      const replayed = await webhooks.replay(ids.endpointId, Date.parse(body.since));
      return toData({ replayed });
    },
  }),
});
