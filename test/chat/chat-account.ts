/** Reads chats from the database of a test. */
import type { TestCaller, TestGateway } from '../harness/gateway.ts';
import { until } from '../harness/until.ts';

/** Row of a chat; amounts in micro-credits. */
export interface ChatRow {
  id: string;
  state: 'reserved' | 'charged' | 'released';
  amount: number;
  charged: number;
  reason: string;
  model: string;
  provider: string;
  input_tokens: number;
  output_tokens: number;
  counted_by: 'provider' | 'gateway' | null;
  checkpoint_micro: number;
}

/** Returns the chats of a caller's organization, oldest first. */
export async function readChats(gateway: TestGateway, caller: TestCaller): Promise<ChatRow[]> {
  return gateway.database.query<ChatRow>(
    `SELECT id, state, amount::float8, coalesce(charged, 0)::float8 AS charged, reason, model, provider,
      input_tokens::float8, output_tokens::float8, counted_by, checkpoint_micro::float8
     FROM reservation WHERE kind = 'chat' AND organization_id = $1 ORDER BY created_at, id`,
    [caller.organizationId],
  );
}

/** Waits until all chats of a caller are settled, and returns them. */
export async function untilAllSettled(
  gateway: TestGateway,
  caller: TestCaller,
): Promise<ChatRow[]> {
  return until(async () => {
    const rows = await readChats(gateway, caller);
    const settled = rows.length > 0 && rows.every((row) => row.state !== 'reserved');
    return settled ? rows : null;
  });
}

/** Waits until the one chat of a caller is settled, and returns it. */
export async function untilSettled(gateway: TestGateway, caller: TestCaller): Promise<ChatRow> {
  const [row, ...more] = await untilAllSettled(gateway, caller);
  if (!row || more.length > 0) throw new Error(`${more.length + 1} chats, not one`);
  return row;
}
