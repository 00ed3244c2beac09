/**
 * A bulk job under random kills: its caller repeats the request with its Idempotency-Key and then
 * polls. At the end, each item, its job and its ledger entries are compared.
 */
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { FaultStack } from './stack.ts';

interface BulkReply {
  data?: {
    bulkId: string;
    done: boolean;
    status: string;
    counts: { total: number; completed: number; failed: number; canceled: number };
    credits: { charged: number };
  };
}

/** Outcome of a bulk job, and what is wrong with it. */
export interface BulkRound {
  items: number;
  completed: number;
  failed: number;
  violations: string[];
}

const path = '/api/v1/studio/bulk';
const pollMs = 1000;

/** Runs a bulk job of pictures until it has ended, and checks its items. */
export async function runBulkRound(
  stack: FaultStack,
  { items, timeoutMs }: { items: number; timeoutMs: number },
): Promise<BulkRound> {
  const tag = `bulk-${randomUUID()}`;
  const deadlineAtMs = Date.now() + timeoutMs;
  const body = {
    concurrency: 16,
    items: Array.from({ length: items }, (_, index) => ({
      use: 'image/generate',
      body: { prompt: `a lamp of ${tag}, number ${index}` },
    })),
  };
  const started = await repeat(stack, { deadlineAtMs, tag, target: path, body });
  let bulk = started;
  while (bulk && !bulk.done) {
    await sleep(pollMs);
    bulk = await repeat(stack, { deadlineAtMs, tag, target: `${path}/${bulk.bulkId}` });
  }
  if (!bulk) {
    const found = started
      ? `the bulk job ${started.bulkId} did not end`
      : 'no bulk job was accepted';
    return { items, completed: 0, failed: 0, violations: [found] };
  }
  const { completed, failed } = bulk.counts;
  return { items, completed, failed, violations: await checkItems(stack, bulk, { items, tag }) };
}

/** Sends a request until it is answered with 2xx. Returns null after the deadline. */
async function repeat(
  stack: FaultStack,
  request: { deadlineAtMs: number; tag: string; target: string; body?: object },
): Promise<BulkReply['data'] | null> {
  const { deadlineAtMs, tag, target, body } = request;
  const urls = [stack.getUrl('api'), stack.getUrl('api2')];
  for (let attempt = 0; Date.now() < deadlineAtMs; attempt += 1) {
    try {
      const response = await fetch((urls[attempt % urls.length] ?? '') + target, {
        method: body ? 'POST' : 'GET',
        headers: {
          authorization: `Bearer ${stack.caller.key}`,
          'content-type': 'application/json',
          'idempotency-key': tag,
        },
        ...(body && { body: JSON.stringify(body) }),
        // A frozen API does not answer.
        signal: AbortSignal.timeout(30_000),
      });
      const reply = (await response.json()) as BulkReply;
      if (response.ok) return reply.data ?? null;
    } catch {
      // The process was killed.
    }
    await sleep(300);
  }
  return null;
}

interface ItemRow {
  index: number;
  state: string;
  charged: string;
  status: string | null;
  reserved: string | null;
  entries: string[];
}

/** Checks that each item ended once, as its job did, and was charged what its job was charged. */
async function checkItems(
  stack: FaultStack,
  bulk: NonNullable<BulkReply['data']>,
  { items, tag }: { items: number; tag: string },
): Promise<string[]> {
  const rows = await stack.query<ItemRow>(
    `SELECT i.index, i.state, i.charged, j.status, r.charged AS reserved,
       ARRAY(SELECT e.kind::text FROM ledger_entry e WHERE e.reservation_id = j.id ORDER BY e.sequence) AS entries
     FROM bulk_item i LEFT JOIN job j ON j.id = i.job_id LEFT JOIN reservation r ON r.id = j.id
     WHERE i.bulk_id = $1 ORDER BY i.index`,
    [bulk.bulkId],
  );
  const violations = rows.flatMap(({ index, state, charged, status, reserved, entries }) => {
    const isRight =
      state === status &&
      charged === (reserved ?? '0') &&
      entries.join() === (state === 'completed' ? 'reserve,charge' : 'reserve,release');
    const found = `item ${index} is ${state}, its job ${status}: ${entries.join()}, ${charged}, ${reserved}`;
    return isRight ? [] : [found];
  });
  const { counts, status } = bulk;
  const ended = counts.completed + counts.failed + counts.canceled;
  if (status !== 'completed') violations.push(`the bulk job is ${status}`);
  if (rows.length !== items || ended !== items) violations.push(`${ended} of ${items} items ended`);
  const [jobs] = await stack.query<{ count: number }>(
    `SELECT count(*)::integer AS count FROM job WHERE request->>'prompt' LIKE $1`,
    [`a lamp of ${tag}, %`],
  );
  if (jobs?.count !== items) violations.push(`${jobs?.count} jobs of ${items} items`);
  return violations;
}
