/**
 * A bulk job under random kills: its caller repeats the request with its Idempotency-Key and then
 * polls. At the end, each item, its job and its ledger entries are compared.
 */
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import pRetry from 'p-retry';
import type { LoggedCall } from '../../ledger/audit.ts';
import { createCalls } from './calls.ts';
import type { FaultStack } from './stack.ts';

interface BulkReply {
  data?: {
    bulkId: string;
    done: boolean;
    status: string;
    stopReason: string | null;
    counts: { total: number; waiting: number; completed: number; failed: number; canceled: number };
    credits: { charged: number; reserved: number };
  };
}

/** Outcome of a bulk job, and what is wrong with it. */
export interface BulkRound {
  items: number;
  completed: number;
  failed: number;
  violations: string[];
}

/** Size and limits of a bulk job. */
interface BulkSettings {
  items: number;
  timeoutMs: number;
  concurrency?: number;
  /** Budget in credits; it must not be exceeded at any time. */
  maxCredits?: number;
}

const path = '/api/v1/studio/bulk';
const pollMs = 1000;

/** Runs a bulk job of pictures until it has ended, and checks its items. */
export async function runBulkRound(
  stack: FaultStack,
  { items, timeoutMs, concurrency = 16, maxCredits }: BulkSettings,
): Promise<BulkRound> {
  const tag = `bulk-${randomUUID()}`;
  const deadlineAtMs = Date.now() + timeoutMs;
  const body = {
    concurrency,
    ...(maxCredits !== undefined && { maxCredits }),
    items: Array.from({ length: items }, (_, index) => ({
      use: 'image/generate',
      body: { prompt: `a lamp of ${tag}, number ${index}` },
    })),
  };
  const started = await repeat(stack, { deadlineAtMs, tag, target: path, body });
  const violations: string[] = [];
  let bulk = started;
  while (bulk && !bulk.done) {
    await sleep(pollMs);
    bulk = await repeat(stack, { deadlineAtMs, tag, target: `${path}/${bulk.bulkId}` });
    const { charged = 0, reserved = 0 } = bulk?.credits ?? {};
    if (charged + reserved > (maxCredits ?? Infinity) + 1e-6)
      violations.push(`${charged} charged and ${reserved} reserved of ${maxCredits}`);
  }
  if (!bulk) {
    const found = started
      ? `the bulk job ${started.bulkId} did not end`
      : 'no bulk job was accepted';
    return { items, completed: 0, failed: 0, violations: [found] };
  }
  const { completed, failed } = bulk.counts;
  const ended = bulk;
  // The bulk job may end while a killed server is away.
  violations.push(
    ...(await pRetry(() => checkItems(stack, ended, { items, tag }), { retries: 20, factor: 1 })),
  );
  return { items, completed, failed, violations };
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
  jobId: string | null;
  code: string | null;
  status: string | null;
  reserved: string | null;
  entries: string[];
}

/** Errors of items whose call a provider may have accepted. */
const unknownOutcomes = ['OUTCOME_UNKNOWN', 'JOB_LOST', 'DEADLINE_EXCEEDED'];

/**
 * Checks that each item ended once, as its job did, and was charged what its job was charged, and
 * that each call which the provider accepted was charged or has an unknown outcome.
 */
async function checkItems(
  stack: FaultStack,
  bulk: NonNullable<BulkReply['data']>,
  { items, tag }: { items: number; tag: string },
): Promise<string[]> {
  const rows = await stack.query<ItemRow>(
    `SELECT i.index, i.state, i.charged, i.job_id AS "jobId", i.error->>'code' AS code, j.status,
       r.charged AS reserved,
       ARRAY(SELECT e.kind::text FROM ledger_entry e WHERE e.reservation_id = j.id ORDER BY e.sequence) AS entries
     FROM bulk_item i LEFT JOIN job j ON j.id = i.job_id LEFT JOIN reservation r ON r.id = j.id
     WHERE i.bulk_id = $1 ORDER BY i.index`,
    [bulk.bulkId],
  );
  const submits = await createCalls(stack).sandbox<LoggedCall[]>('submits');
  const accepted = Map.groupBy(
    submits,
    ({ webhookUrl }) => /job_[0-9a-f]{32}/.exec(webhookUrl ?? '')?.[0] ?? '',
  );
  const violations = rows.flatMap((row) => {
    const { index, state, charged, jobId, code, status, reserved, entries } = row;
    const calls = jobId === null ? 0 : (accepted.get(jobId)?.length ?? 0);
    const settled = state === 'completed' ? 'reserve,charge' : 'reserve,release';
    const mayBeUnpaid = calls === 0 || (calls === 1 && unknownOutcomes.includes(code ?? ''));
    const isRight =
      (state === 'waiting' ? status === null : state === status) &&
      charged === (reserved ?? '0') &&
      entries.join() === (state === 'waiting' ? '' : settled) &&
      (state === 'completed' ? calls === 1 : mayBeUnpaid);
    const found = `item ${index} is ${state} (${code}), its job ${status}: ${entries.join()}, ${charged}, ${reserved}, ${calls} calls`;
    return isRight ? [] : [found];
  });
  const { counts, status, stopReason } = bulk;
  const ended = counts.completed + counts.failed + counts.canceled;
  const isStopped = counts.waiting > 0 && stopReason === 'MAX_CREDITS';
  if (status !== 'completed' && !isStopped) violations.push(`the bulk job is ${status}`);
  if (rows.length !== items || ended + counts.waiting !== items)
    violations.push(`${ended} of ${items} items ended`);
  const [jobs] = await stack.query<{ count: number }>(
    `SELECT count(*)::integer AS count FROM job WHERE request->>'prompt' LIKE $1`,
    [`a lamp of ${tag}, %`],
  );
  if (jobs?.count !== ended) violations.push(`${jobs?.count} jobs of ${ended} ended items`);
  return violations;
}
