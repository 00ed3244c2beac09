/**
 * /api/v1/webhooks/notices: gets and sets the URL that receives account notices (docs/webhooks.md).
 */
import { z } from 'zod';
import { noticeData, type AccountNotices } from '../../webhooks/notices.ts';
import { creditsFromMicro, microFromCredits } from '../../domain/credits.ts';
import { toResponse } from '../../domain/json.ts';
import { parseWebhookUrl, webhookUrlLengthMax } from '../studio/webhook-url.ts';
import { listedWebhook } from './caller-webhooks.ts';
import { time } from './fields.ts';
import { defineEndpoint, section } from './endpoint.ts';

const noticesShownMax = 20;
const creditsMax = 1_000_000_000;

const lowBalanceCredits = z.number().min(0).max(creditsMax).nullable();

const noticeSettings = z.object({
  url: z.string().nullable(),
  lowBalanceCredits,
  notices: z
    .array(
      listedWebhook
        .pick({ state: true, attempts: true, lastStatus: true, lastError: true })
        .extend({
          type: z.enum(['account.balance.low', 'key.limit.near', 'key.limit.reached']),
          createdAt: time,
          data: z.union([noticeData['account.balance.low'], noticeData['key.limit.near']]),
        }),
    )
    .meta({ description: 'The latest 20 notices, newest first, with the state of each delivery.' }),
});

/**
 * Access rules, the same as for creating API keys, because notices reveal the organization's
 * spending.
 */
const noticesAccess = {
  scope: 'keys:write',
  viewerError: 'A viewer may not see or change the URL of notices.',
  answer: noticeSettings,
} as const;

async function readNotices(
  accountNotices: AccountNotices,
  organizationId: string,
): Promise<z.infer<typeof noticeSettings>> {
  const [{ url, lowBalanceMicro }, newest] = await Promise.all([
    accountNotices.readTarget(organizationId),
    accountNotices.list(organizationId, noticesShownMax),
  ]);
  return {
    url,
    lowBalanceCredits: lowBalanceMicro === null ? null : creditsFromMicro(lowBalanceMicro),
    notices: newest.map(toResponse),
  };
}

/** Endpoints that get and set the URL of account notices, and list the notices. */
export const noticeEndpoints = section('Webhooks', {
  getNotices: defineEndpoint({
    route: 'GET /api/v1/webhooks/notices',
    ...noticesAccess,
    summary: 'Get the URL for notices of low balances and key limits, and the latest notices',
    handle: ({ caller }, { accountNotices }) => readNotices(accountNotices, caller.organizationId),
  }),

  setNotices: defineEndpoint({
    route: 'PUT /api/v1/webhooks/notices',
    ...noticesAccess,
    summary: 'Set the URL for notices of low balances and key limits',
    description:
      'A notice is sent when the balance falls to `lowBalanceCredits`, and again only after the balance has risen above it. ' +
      'For each key limit, a notice is sent once per period when 80 % is used, and once when the limit is reached.',
    request: {
      body: z.strictObject({
        url: z.string().max(webhookUrlLengthMax).nullable().meta({
          format: 'uri',
          description: 'HTTPS URL that receives the notices; null stops all notices.',
        }),
        lowBalanceCredits: lowBalanceCredits.default(null).meta({
          description: 'Balance at which a notice is sent; null stops notices of low balances.',
        }),
      }),
      example: { url: 'https://shop.example/hooks/credits', lowBalanceCredits: 100 },
    },
    async handle({ caller: { organizationId }, body }, { accountNotices, outbound }) {
      const { url, lowBalanceCredits: low } = body;
      await accountNotices.setTarget(organizationId, {
        url: url === null ? null : parseWebhookUrl(url, outbound, 'url'),
        lowBalanceMicro: low === null ? null : microFromCredits(low),
      });
      return readNotices(accountNotices, organizationId);
    },
  }),
});
