/**
 * Activity `recordApproval`: records in the row of a job that a step begins to wait for a decision,
 * and how the wait ends. The deadline of the job moves by the time for which the step waits. Returns
 * the ids of the webhooks that report the begin of the wait; null at its end.
 */
import { sql } from 'slonik';
import type { ApprovalEvent } from '../domain/approvals.ts';
import { asJson, toStorable } from '../domain/json.ts';
import { command, type DatabasePool } from '../platform/database.ts';
import type { Webhooks } from '../webhooks/webhooks.ts';
import { toJobStep } from './reserve.ts';

/** Records an event. A repeated event changes nothing. */
export async function recordApproval(
  { pool, webhooks }: { pool: DatabasePool; webhooks: Pick<Webhooks, 'createForStep'> },
  { jobId, stepId, index, sinceMs, untilMs, change }: ApprovalEvent,
): Promise<string[] | null> {
  if (change.kind === 'begin') {
    const approval = sql.jsonb({
      sinceMs,
      untilMs,
      outputs: toStorable(asJson(change.outputs)),
      end: null,
    });
    // A workflow that was reset waits again, since another time.
    await pool.query(command`UPDATE job SET awaiting = true,
        deadline_at = deadline_at + ${untilMs - sinceMs}::float8 * interval '1 millisecond',
        approvals = coalesce(approvals, '{}') || jsonb_build_object(${stepId}::text, ${approval})
      WHERE id = ${jobId} AND status = 'open'
        AND (approvals->${stepId}->>'sinceMs')::float8 IS DISTINCT FROM ${sinceMs}::float8`);
    return webhooks.createForStep(jobId, stepId);
  }
  const { end, body, step } = change;
  const position = String(index);
  await pool.query(command`UPDATE job SET
      approvals = jsonb_set(approvals, ARRAY[${stepId}, 'end'], ${sql.jsonb(toStorable(asJson(end)))}),
      awaiting = EXISTS (SELECT FROM jsonb_each(approvals) AS other
        WHERE other.key <> ${stepId} AND other.value->'end' = 'null'),
      deadline_at = deadline_at
        - greatest(interval '0', to_timestamp(${untilMs}::float8 / 1000) - clock_timestamp()),
      request = CASE WHEN ${body !== null} THEN
        jsonb_set(request, ARRAY['steps', ${position}, 'body'], ${sql.jsonb(toStorable(body))}) ELSE request END,
      steps = CASE WHEN ${step !== null} THEN
        jsonb_set(steps, ARRAY[${position}], ${sql.jsonb(step && toStorable(asJson(toJobStep(step))))}) ELSE steps END
    WHERE id = ${jobId} AND status = 'open' AND approvals->${stepId}->'end' = 'null'
      AND (approvals->${stepId}->>'sinceMs')::float8 = ${sinceMs}::float8`);
  return null;
}
