/** /api/v1/webhooks/notices: where an organization is told of its balance and limits (docs/webhooks.md). */
import { z } from 'zod';
import { noticeData, type Notices } from '../../activities/webhooks/notices.ts';
import { creditsFromMicro, microFromCredits } from '../../domain/credits.ts';
import { isoTimes } from '../../domain/iso-time.ts';
import { bodySchema } from '../middleware/body-schema.ts';
import { parseWebhookUrl, webhookUrlLengthMax } from '../studio/webhook-url.ts';
import { time } from './fields.ts';
import { defineOperation, section } from './operation.ts';
import { listedWebhook } from './webhook-view.ts';

const noticesShownMax = 20;
const creditsMax = 1_000_000_000;

const lowBalanceCredits = z.number().min(0).max(creditsMax).nullable();

const targetSchema = z.object({
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
    .meta({ description: 'The latest 20, newest first, with the state of each delivery.' }),
});

/** Who says where notices go learns what the organization spends: it is guarded as the making of keys is. */
const guarded = {
  scope: 'keys:write',
  refusesViewers: 'A viewer may not see or change where notices go.',
  answer: targetSchema,
} as const;

async function show(
  notices: Notices,
  organizationId: string,
): Promise<z.infer<typeof targetSchema>> {
  const [{ url, lowBalanceMicro }, newest] = await Promise.all([
    notices.target(organizationId),
    notices.list(organizationId, noticesShownMax),
  ]);
  return {
    url,
    lowBalanceCredits: lowBalanceMicro === null ? null : creditsFromMicro(lowBalanceMicro),
    notices: newest.map(isoTimes),
  };
}

/** Where they go, and those of late. */
export const webhooksNotices = section('Webhooks', {
  getNotices: defineOperation({
    route: 'GET /api/v1/webhooks/notices',
    ...guarded,
    summary: 'Get the notices of low balances and key limits: where they go, and the latest',
    handle: ({ caller }, { notices }) => show(notices, caller.organizationId),
  }),

  setNotices: defineOperation({
    route: 'PUT /api/v1/webhooks/notices',
    ...guarded,
    summary: 'Set where notices of low balances and key limits go',
    description:
      'A notice is sent when the balance has come down to `lowBalanceCredits` (again only after it was above), and, ' +
      'once per period, when 80 % of the limit of a key is used and when it is reached.',
    request: {
      body: bodySchema(
        z.strictObject({
          url: z
            .string()
            .max(webhookUrlLengthMax)
            .nullable()
            .meta({ format: 'uri', description: 'https URL; null: no notices are sent.' }),
          lowBalanceCredits: lowBalanceCredits
            .default(null)
            .meta({ description: 'Null: no notices of low balances.' }),
        }),
      ),
      example: { url: 'https://shop.example/hooks/credits', lowBalanceCredits: 100 },
    },
    async handle({ caller: { organizationId }, body }, { notices, outbound }) {
      const { url, lowBalanceCredits: low } = body;
      await notices.setTarget(organizationId, {
        url: url === null ? null : parseWebhookUrl(url, outbound, 'url'),
        lowBalanceMicro: low === null ? null : microFromCredits(low),
      });
      return show(notices, organizationId);
    },
  }),
});
