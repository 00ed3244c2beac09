/**
 * Activity `recordApproval`: records in the row of a job that a step begins to wait for a decision,
 * and how the wait ends. The deadline of the job moves by the time for which the step waits.
 */
import { sql } from 'slonik';
import { z } from 'zod';
import type { ApprovalEnd, ApprovalEvent, RecordedApproval } from '../domain/approvals.ts';
import { asJson, toStorable } from '../domain/json.ts';
import { command, type DatabasePool } from '../platform/database.ts';
import type { Webhooks } from '../webhooks/webhooks.ts';
import { toJobStep } from './reserve.ts';

interface Services {
  pool: DatabasePool;
  webhooks: Pick<Webhooks, 'createForStep'>;
  publicBaseUrl: string;
}

const endRow = z.object({ isOpen: z.boolean(), end: z.custom<ApprovalEnd>().nullable() });
/** End of the wait in a job that was settled without one. */
const settled = {
  kind: 'cancel',
  hash: null,
  keyId: null,
  reason: null,
  outputs: {},
  changed: null,
} as const;

/**
 * Records an event, and returns the end of the wait as it is in the row. A repeated event changes
 * nothing, and a recorded end stays.
 */
export async function recordApproval(
  { pool, webhooks, publicBaseUrl }: Services,
  event: ApprovalEvent,
): Promise<RecordedApproval> {
  const { jobId, stepId, change } = event;
  await (change.kind === 'begin'
    ? recordBegin(pool, event, change)
    : recordEnd(pool, event, change));
  const row = await pool.maybeOne(sql.type(endRow)`
    SELECT status = 'open' AS "isOpen", nullif(approvals->${stepId}->'end', 'null') AS end
    FROM job WHERE id = ${jobId}`);
  const end = row?.end ?? (row?.isOpen ? null : settled);
  const webhookIds = end ? [] : await webhooks.createForStep(jobId, stepId);
  return { end, webhookIds, jobUrl: `${publicBaseUrl}/console/jobs/${jobId}` };
}

async function recordBegin(
  pool: DatabasePool,
  { jobId, stepId, sinceMs, untilMs }: ApprovalEvent,
  { outputs }: Extract<ApprovalEvent['change'], { kind: 'begin' }>,
): Promise<void> {
  const approval = sql.jsonb({ sinceMs, untilMs, outputs: toStorable(asJson(outputs)), end: null });
  // A workflow that was reset waits again, since another time, unless the step was decided: the rest of its earlier
  // wait no longer counts.
  await pool.query(command`UPDATE job SET awaiting = true,
      deadline_at = deadline_at + ${untilMs - sinceMs}::float8 * interval '1 millisecond' - greatest(interval '0',
        to_timestamp((approvals->${stepId}->>'untilMs')::float8 / 1000) - clock_timestamp()),
      approvals = coalesce(approvals, '{}') || jsonb_build_object(${stepId}::text, ${approval})
    WHERE id = ${jobId} AND status = 'open' AND coalesce(approvals->${stepId}->'end', 'null') = 'null'
      AND (approvals->${stepId}->>'sinceMs')::float8 IS DISTINCT FROM ${sinceMs}::float8`);
}

async function recordEnd(
  pool: DatabasePool,
  { jobId, stepId, index, sinceMs, untilMs }: ApprovalEvent,
  { end, body }: Extract<ApprovalEvent['change'], { kind: 'end' }>,
): Promise<void> {
  const position = String(index);
  const step = end.changed && toStorable(asJson(toJobStep(end.changed.step)));
  await pool.query(command`UPDATE job SET
      approvals = jsonb_set(approvals, ARRAY[${stepId}, 'end'], ${sql.jsonb(toStorable(asJson(end)))}),
      awaiting = EXISTS (SELECT FROM jsonb_each(approvals) AS other
        WHERE other.key <> ${stepId} AND other.value->'end' = 'null'),
      deadline_at = deadline_at
        - greatest(interval '0', to_timestamp(${untilMs}::float8 / 1000) - clock_timestamp()),
      request = CASE WHEN ${body !== null} THEN
        jsonb_set(request, ARRAY['steps', ${position}, 'body'], ${sql.jsonb(toStorable(body))}) ELSE request END,
      steps = CASE WHEN ${step !== null} THEN
        jsonb_set(steps, ARRAY[${position}], ${sql.jsonb(step)}) ELSE steps END
    WHERE id = ${jobId} AND status = 'open' AND approvals->${stepId}->'end' = 'null'
      AND (approvals->${stepId}->>'sinceMs')::float8 = ${sinceMs}::float8`);
}
