/**
 * /api/v1/webhooks/notices: lists account notices, and gets and sets the URL that receives them
 * (docs/webhooks.md).
 */
import { z } from 'zod';
import { noticeData, type AccountNotices } from '../../webhooks/notices.ts';
import { creditsFromMicro, microFromCredits } from '../../domain/credits.ts';
import { keysOf, toResponse } from '../../domain/json.ts';
import { parseWebhookUrl, webhookUrlLengthMax } from '../../studio/requests/webhook-fields.ts';
import { listedWebhook } from './caller-webhooks.ts';
import { time } from './fields.ts';
import { defineEndpoint, defineSection } from './endpoint.ts';

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
          type: z.enum(keysOf(noticeData)),
          createdAt: time,
          data: z.union([
            noticeData['account.balance.low'],
            noticeData['key.limit.near'],
            noticeData['end_user.limit.near'],
          ]),
        }),
    )
    .meta({ description: 'The latest 20 notices, newest first, with the state of each delivery.' }),
});

/**
 * Access rules of the notice endpoints. They are the same as for creating API keys, because notices
 * reveal the organization's spending.
 */
const noticeAccessRules = {
  scope: 'keys:write',
  viewerError: 'A viewer may not see or change the account notice settings.',
  response: noticeSettings,
} as const;

async function readNotices(
  accountNotices: AccountNotices,
  organizationId: string,
): Promise<z.infer<typeof noticeSettings>> {
  const [{ url, lowBalanceMicro }, latestNotices] = await Promise.all([
    accountNotices.readTarget(organizationId),
    accountNotices.list(organizationId, noticesShownMax),
  ]);
  return {
    url,
    lowBalanceCredits: lowBalanceMicro === null ? null : creditsFromMicro(lowBalanceMicro),
    notices: latestNotices.map(toResponse),
  };
}

/** Endpoints that get and set the URL of account notices, and list the notices. */
export const noticeEndpoints = defineSection('Webhooks', {
  getNotices: defineEndpoint({
    route: 'GET /api/v1/webhooks/notices',
    ...noticeAccessRules,
    summary: 'Get the account notice settings and the latest notices',
    handle: ({ caller }, { accountNotices }) => readNotices(accountNotices, caller.organizationId),
  }),

  setNotices: defineEndpoint({
    route: 'PUT /api/v1/webhooks/notices',
    ...noticeAccessRules,
    summary: 'Set the URL and the low balance for account notices',
    description:
      'A low-balance notice is sent when the balance falls to `lowBalanceCredits`. Another one is sent only after the balance has been above that value. ' +
      'In each period of a limit of a key or an end user, one notice is sent when 80 % of the limit is used, and one when the limit is reached.',
    request: {
      body: z.strictObject({
        url: z.string().max(webhookUrlLengthMax).nullable().meta({
          format: 'uri',
          description:
            'HTTPS URL that receives the notices. If it is null, the webhook endpoints that chose them receive them.',
        }),
        lowBalanceCredits: lowBalanceCredits.default(null).meta({
          description: 'Balance in credits at which a notice is sent; null stops these notices.',
        }),
      }),
      example: { url: 'https://shop.example/hooks/credits', lowBalanceCredits: 100 },
    },
    async handle({ caller: { organizationId }, body }, { accountNotices, outbound }) {
      const { url, lowBalanceCredits: thresholdCredits } = body;
      await accountNotices.setTarget(organizationId, {
        url: url === null ? null : parseWebhookUrl(url, outbound, 'url'),
        lowBalanceMicro: thresholdCredits === null ? null : microFromCredits(thresholdCredits),
      });
      return readNotices(accountNotices, organizationId);
    },
  }),
});
