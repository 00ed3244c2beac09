/** What the database knows of chats, asked by tests. */
import type { TestCaller, TestGateway } from '../harness/gateway.ts';
import { until } from '../harness/until.ts';

/** A chat and its reservation, or its part of a lease; amounts in micro-credits. */
export interface ChatRow {
  id: string;
  state: 'reserved' | 'charged' | 'released';
  amount: number;
  charged: number;
  reason: string;
  input_tokens: number;
  output_tokens: number;
  counted_by: 'provider' | 'gateway' | null;
  checkpoint_micro: number;
}

/** The chats of a caller's organization, oldest first. */
export async function chatsOf(gateway: TestGateway, caller: TestCaller): Promise<ChatRow[]> {
  return gateway.database.query<ChatRow>(
    `SELECT id, state, amount::float8, charged::float8, reason, input_tokens::float8,
      output_tokens::float8, counted_by, checkpoint_micro::float8
     FROM (
       SELECT c.id, r.state, r.amount, coalesce(r.charged, 0) AS charged, r.reason, c.input_tokens,
         c.output_tokens, c.counted_by, c.checkpoint_micro, c.created_at, c.organization_id
       FROM chat_request c JOIN reservation r USING (id)
       UNION ALL
       SELECT id, state, amount, CASE state WHEN 'charged' THEN amount ELSE 0 END, reason,
         input_tokens, output_tokens, counted_by, CASE state WHEN 'reserved' THEN amount ELSE 0 END,
         created_at, organization_id
       FROM leased_chat) AS chat
     WHERE organization_id = $1 ORDER BY created_at, id`,
    [caller.organizationId],
  );
}

/** Whether chats of a caller may not be booked yet. */
async function hasLease(gateway: TestGateway, caller: TestCaller): Promise<boolean> {
  const open = await gateway.database.query(
    `SELECT FROM reservation WHERE organization_id = $1 AND kind = 'lease' AND state = 'reserved'`,
    [caller.organizationId],
  );
  return open.length > 0;
}

/** The chats of a caller once none is open any more. */
export async function settledChatsOf(gateway: TestGateway, caller: TestCaller): Promise<ChatRow[]> {
  return until(async () => {
    const rows = await chatsOf(gateway, caller);
    const settled = rows.length > 0 && rows.every((row) => row.state !== 'reserved');
    return settled && !(await hasLease(gateway, caller)) ? chatsOf(gateway, caller) : null;
  });
}

/** The one chat of a caller, settled. */
export async function settledChatOf(gateway: TestGateway, caller: TestCaller): Promise<ChatRow> {
  const [row, ...more] = await settledChatsOf(gateway, caller);
  if (!row || more.length > 0) throw new Error(`${more.length + 1} chats, not one`);
  return row;
}
