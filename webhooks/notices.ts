/**
 * Account notices, which inform an organization that its balance is low, or that the limit of a key
 * or an end user is near or reached. The sweeper creates them (webhooks/notices.sql), and they are delivered like
 * the webhooks of jobs.
 */
import { sql } from 'slonik';
import { z } from 'zod';
import { creditsFromMicro, keyBudget } from '../domain/credits.ts';
import { isoTime } from '../domain/json.ts';
import { command, type DatabasePool } from '../platform/database.ts';
import { listedWebhook } from './webhooks.ts';

const limitData = z
  .object({
    noticeId: z.string(),
    keyId: z.string().meta({ description: 'Key whose limit is near or reached.' }),
    name: z.string(),
    limit: z.number(),
    per: keyBudget.shape.per,
    used: z.number().meta({ description: 'Credits reserved and charged in the current period.' }),
    resetsAt: z.iso.datetime().nullable().meta({
      description: 'Time at which the period of the limit ends; null if the limit has no period.',
    }),
  })
  .meta({ title: 'KeyLimitNoticeData' });

const endUserLimitData = limitData
  .omit({ keyId: true, name: true })
  .extend({ endUser: z.string().meta({ description: 'End user whose limit is near or reached.' }) })
  .meta({ id: 'EndUserLimitNotice' });

/** Schemas of the `data` of account notices, by type. Amounts are in credits. */
export const noticeData = {
  'account.balance.low': z
    .object({
      noticeId: z.string(),
      credits: z
        .number()
        .meta({ description: 'Balance; credits reserved by running jobs are not deducted.' }),
      threshold: z.number(),
    })
    .meta({ title: 'BalanceNoticeData' }),
  'key.limit.near': limitData,
  'key.limit.reached': limitData,
  'end_user.limit.near': endUserLimitData,
  'end_user.limit.reached': endUserLimitData,
} as const;

type NoticeData = z.infer<(typeof noticeData)[keyof typeof noticeData]>;

/** Account notice; `createdAtMs` is in Unix milliseconds. */
export interface AccountNotice {
  type: keyof typeof noticeData;
  createdAtMs: number;
  data: NoticeData;
}

const delivery = listedWebhook.pick({
  state: true,
  attempts: true,
  lastStatus: true,
  lastError: true,
});
/** Account notice with the state of its delivery. */
export type ListedAccountNotice = AccountNotice & z.infer<typeof delivery>;

const target = z.object({ url: z.string().nullable(), lowBalanceMicro: z.number().nullable() });
/**
 * Where an organization's notices are sent, and the balance in micro-credits at which a balance
 * notice is due. Without a URL, the webhook endpoints receive the notices; without a balance, there
 * are no balance notices.
 */
export type AccountNoticeTarget = z.infer<typeof target>;

const balanceBody = z.object({ total: z.number(), threshold: z.number() });
const limitBody = keyBudget.extend({ keyId: z.string(), name: z.string() });
const endUserLimitBody = keyBudget.extend({ endUser: z.string() });
const storedFields = { id: z.string(), createdAtMs: z.number() };
const row = z.discriminatedUnion('type', [
  z.object({ ...storedFields, type: z.literal('account.balance.low'), body: balanceBody }),
  z.object({
    ...storedFields,
    type: z.enum(['key.limit.near', 'key.limit.reached']),
    body: limitBody,
  }),
  z.object({
    ...storedFields,
    type: z.enum(['end_user.limit.near', 'end_user.limit.reached']),
    body: endUserLimitBody,
  }),
]);
const noticeColumns = sql.fragment`n.id, n.type, n.body, n.created_at AS "createdAtMs"`;

/** Creates the functions that read and write account notices in the database. */
export function createAccountNotices(pool: DatabasePool) {
  return {
    /** Returns the target of an organization's account notices. */
    async readTarget(organizationId: string): Promise<AccountNoticeTarget> {
      const storedTarget = await pool.maybeOne(sql.type(target)`
        SELECT url, low_balance_micro AS "lowBalanceMicro" FROM account_notice_target
        WHERE organization_id = ${organizationId}`);
      return storedTarget ?? { url: null, lowBalanceMicro: null };
    },
    /** Stores the target. A change of it makes the notice of a low balance due again. */
    async setTarget(
      organizationId: string,
      { url, lowBalanceMicro }: AccountNoticeTarget,
    ): Promise<void> {
      await pool.query(command`
        INSERT INTO account_notice_target AS t (organization_id, url, low_balance_micro)
        VALUES (${organizationId}, ${url}, ${lowBalanceMicro})
        ON CONFLICT (organization_id) DO UPDATE SET url = excluded.url,
          low_balance_micro = excluded.low_balance_micro,
          balance_is_low = t.balance_is_low
            AND (t.url, t.low_balance_micro) IS NOT DISTINCT FROM
              (excluded.url, excluded.low_balance_micro)`);
    },
    /** Creates all due notices. Several processes may call this function at the same time. */
    async createDue(): Promise<void> {
      await pool.query(command`SELECT make_account_notices()`);
    },
    async read(id: string): Promise<AccountNotice> {
      return toNotice(
        await pool.one(
          sql.type(row)`SELECT ${noticeColumns} FROM account_notice n WHERE n.id = ${id}`,
        ),
      );
    },
    /**
     * Lists the account notices of an organization, newest first. Of several webhooks, it has one that
     * was not delivered.
     */
    async list(organizationId: string, limit: number): Promise<ListedAccountNotice[]> {
      const rows = await pool.any(sql.type(row.and(delivery))`
        SELECT ${noticeColumns}, w.state, w.attempts, a.status AS "lastStatus", a.error AS "lastError"
        FROM account_notice n CROSS JOIN LATERAL (
            SELECT * FROM webhooks_of(ARRAY[n.id]) ORDER BY state = 'delivered', subject_id LIMIT 1) AS w
          LEFT JOIN webhook_attempt a ON a.subject_id = w.subject_id AND a.number = w.attempts
        WHERE n.organization_id = ${organizationId}
        ORDER BY n.created_at DESC, n.id DESC LIMIT ${limit}`);
      return rows.map((notice) => {
        const { state, attempts, lastStatus, lastError } = notice;
        return { ...toNotice(notice), state, attempts, lastStatus, lastError };
      });
    },
  };
}
export type AccountNotices = ReturnType<typeof createAccountNotices>;

function toNotice({ id: noticeId, createdAtMs, ...notice }: z.infer<typeof row>): AccountNotice {
  const { type } = notice;
  if (type === 'account.balance.low') {
    const { total, threshold } = notice.body;
    const data = {
      noticeId,
      credits: creditsFromMicro(total),
      threshold: creditsFromMicro(threshold),
    };
    return { type, createdAtMs, data };
  }
  const { limit, per, used, resetsAtMs, ...subject } = notice.body;
  const data = {
    noticeId,
    ...subject,
    limit: creditsFromMicro(limit),
    per,
    used: creditsFromMicro(used),
    resetsAt: isoTime(resetsAtMs),
  };
  return { type, createdAtMs, data };
}
