/**
 * Fills a database with jobs and chats of past days, as one busy organization makes them: ids that
 * sort by time, balanced ledger entries, metadata, artifacts and provider calls. The audit finds no
 * violation in them.
 */
import { Client } from 'pg';

/** Rows to make, spread evenly over `days` days that end now. */
export interface GrowthPlan {
  jobs: number;
  chats: number;
  days: number;
  organizationId: string;
  /** API keys of the organization, which take turns. */
  keyIds: readonly string[];
}

/**
 * Statement that makes the rows of one day in a temporary table. Parameters: start of the day
 * (Unix seconds), number of jobs, number of chats, key ids, organization id.
 */
const makeDay = `
  CREATE TEMPORARY TABLE made ON COMMIT DROP AS
  WITH numbered AS (
    SELECT n, n % ($2::int + $3::int) * $2::bigint % ($2::int + $3::int) < $2::int AS is_job,
      to_timestamp($1::float8 + n * 86400.0 / ($2::int + $3::int)) AS created_at,
      ($4::text[])[1 + n % cardinality($4::text[])] AS key_id, random() AS luck, random() AS size
    FROM generate_series(0, $2::int + $3::int - 1) AS n)
  SELECT n, is_job, created_at, key_id, $5::text AS organization_id,
    CASE WHEN is_job THEN 'job_' ELSE 'chat_' END
      || lpad(to_hex((extract(epoch FROM created_at) * 1000)::bigint), 12, '0') || '7'
      || lpad(to_hex(n % 4096), 3, '0') || '8' || lpad(to_hex(n), 15, '0') AS id,
    CASE WHEN is_job THEN 3900000 ELSE (20000 + size * 400000)::bigint END AS amount,
    CASE WHEN is_job AND luck < 0.94 THEN 3900000
      WHEN NOT is_job AND luck < 0.97 THEN (5000 + size * 90000)::bigint END AS charged,
    CASE WHEN luck < 0.94 THEN 'completed' WHEN luck < 0.99 THEN 'failed' ELSE 'canceled' END AS status,
    CASE WHEN is_job
      THEN (ARRAY['nano-banana', 'nano-banana-pro', 'seedream', 'kling-3.0-pro'])[1 + n % 4]
      ELSE (ARRAY['gpt-5-mini', 'claude-sonnet-5', 'gemini-3.5-flash', 'gpt-5', 'claude-opus-5'])[1 + n % 5]
    END AS model,
    (ARRAY['image/generate', 'image/generate', 'image/edit', 'video/generate'])[1 + n % 4] AS type,
    CASE WHEN n % 3 = 0 THEN jsonb_build_object('team', 'team-' || n % 12) END AS metadata,
    md5(n::text) || md5(created_at::text) AS sha256
  FROM numbered`;

const insertDay = [
  `INSERT INTO reservation (id, organization_id, kind, amount, charged, state, reason, window_started_at,
      expires_at, created_at, settled_at, budget_id, key_id, model, provider, streamed, request_id, metadata,
      input_tokens, output_tokens, counted_by, checkpoint_micro)
    SELECT id, organization_id, CASE WHEN is_job THEN 'studio' ELSE 'chat' END, amount, charged,
      CASE WHEN charged IS NULL THEN 'released' ELSE 'charged' END, 'ended',
      CASE WHEN is_job THEN date_trunc('day', created_at) END, created_at + interval '1 hour', created_at,
      created_at + interval '2 seconds', key_id, CASE WHEN NOT is_job THEN key_id END,
      CASE WHEN NOT is_job THEN model END, CASE WHEN NOT is_job THEN 'openai' END,
      CASE WHEN NOT is_job THEN true END, CASE WHEN NOT is_job THEN 'req_' || right(id, 32) END,
      CASE WHEN NOT is_job THEN metadata END, CASE WHEN NOT is_job THEN 800 + n % 900 END,
      CASE WHEN NOT is_job THEN 100 + n % 700 END,
      CASE WHEN NOT is_job AND charged IS NOT NULL THEN 'provider' END, CASE WHEN NOT is_job THEN 0 END
    FROM made`,
  `INSERT INTO job (id, organization_id, key_id, type, model, provider, status, request, outputs, error, request_id,
      created_at, deadline_at, completed_at, metadata)
    SELECT id, organization_id, key_id, type, model, 'fal', status,
      jsonb_build_object('model', model, 'aspectRatio', '16:9', 'prompt',
        'a ' || (ARRAY['red', 'green', 'misty', 'ancient', 'bright', 'quiet', 'wooden'])[1 + n % 7] || ' '
        || (ARRAY['lighthouse', 'harbour', 'bicycle', 'mountain', 'teapot', 'portrait', 'street', 'forest', 'boat'])[1 + n % 9]
        || ' at dawn, number ' || left(sha256, 8) || ', soft light, wide lens, for campaign ' || n % 400),
      CASE WHEN status = 'completed' THEN jsonb_build_array(jsonb_build_object('callIndex', 0, 'artifacts',
        jsonb_build_array(jsonb_build_object('storageKey', organization_id || '/' || id || '/0-0.png',
          'contentType', 'image/png', 'sizeBytes', 100000 + n, 'sha256', sha256, 'width', 1360, 'height', 768,
          'durationSeconds', null, 'hasAudio', null)), 'data', null, 'delivered', 1, 'error', null)) END,
      CASE WHEN status <> 'completed' THEN jsonb_build_object('code', CASE status WHEN 'failed' THEN 'PROVIDER_ERROR'
        ELSE 'CANCELED' END, 'message', 'the provider failed', 'retryable', false) END,
      'req_' || right(id, 32), created_at, created_at + interval '10 minutes', created_at + interval '2 seconds', metadata
    FROM made WHERE is_job`,
  `INSERT INTO artifact (storage_key, job_id, organization_id, content_type, size_bytes, sha256, created_at)
    SELECT organization_id || '/' || id || '/0-0.png', id, organization_id, 'image/png', 100000 + n, sha256, created_at
    FROM made WHERE is_job AND status = 'completed'`,
  `INSERT INTO provider_call (job_id, call_index, route_index, provider, provider_endpoint, provider_request_id, state,
      begun_at, updated_at, accepted_at, answered_at)
    SELECT id, 0, 0, 'fal', 'fal-ai/nano-banana', right(id, 32), 'answered', created_at, created_at, created_at, created_at
    FROM made WHERE is_job`,
  `INSERT INTO metadata_pair (organization_id, name, value, created_at, id)
    SELECT organization_id, pair.key, pair.value, created_at, id FROM made, jsonb_each_text(metadata) AS pair`,
  `INSERT INTO ledger_entry (organization_id, sequence, idempotency_key, kind, reservation_id, posted_change,
      reserved_change, posted_after, reserved_after, created_at)
    SELECT organization_id, start + row_number() OVER w, verb || ':' || id, entry_kind, id, posted_change,
      reserved_change, posted + sum(posted_change) OVER w, sum(reserved_change) OVER w, at
    FROM (SELECT a.organization_id, a.sequence AS start, a.posted, m.id, m.n, e.*
      FROM made m JOIN account a USING (organization_id), LATERAL (VALUES
        (1, 'reserve', 'reserve', 0::bigint, amount, created_at),
        (2, 'settle', CASE WHEN charged IS NULL THEN 'release' ELSE 'charge' END, -coalesce(charged, 0), -amount,
          created_at + interval '2 seconds'))
        AS e (position, verb, entry_kind, posted_change, reserved_change, at)) AS entries
    WINDOW w AS (ORDER BY n, position ROWS UNBOUNDED PRECEDING)`,
  `UPDATE account a SET posted = e.posted_after, sequence = e.sequence FROM ledger_entry e
    WHERE e.organization_id = a.organization_id AND a.organization_id IN (SELECT organization_id FROM made LIMIT 1)
      AND e.sequence = (SELECT max(sequence) FROM ledger_entry l WHERE l.organization_id = a.organization_id)`,
  `INSERT INTO budget_spend (budget_id, day, spent)
    SELECT key_id, (created_at AT TIME ZONE 'UTC')::date, sum(coalesce(charged, 0)) FROM made GROUP BY 1, 2
    HAVING sum(coalesce(charged, 0)) <> 0
    ON CONFLICT (budget_id, day) DO UPDATE SET spent = budget_spend.spent + excluded.spent`,
];

/** Tables whose indexes are made after they are filled, which takes a fraction of the time. */
const filledTables = [
  'reservation',
  'job',
  'artifact',
  'provider_call',
  'ledger_entry',
  'metadata_pair',
];

/** Time limit of a statement: the index of the search takes minutes for millions of jobs. */
const hourMs = 3_600_000;

/**
 * Makes the rows. The organization needs an account that can pay them. `report` receives the number
 * of finished days.
 */
export async function fillDatabase(
  databaseUrl: string,
  plan: GrowthPlan,
  report: (days: number) => void = () => {},
): Promise<void> {
  const client = new Client({ connectionString: databaseUrl, query_timeout: hourMs });
  await client.connect();
  try {
    const { rows: indexes } = await client.query<{ name: string; definition: string }>(
      `
      SELECT indexrelid::regclass::text AS name, pg_get_indexdef(indexrelid) AS definition FROM pg_index
      WHERE NOT indisunique AND indrelid = ANY ($1::regclass[]) ORDER BY 1`,
      [filledTables],
    );
    for (const { name } of indexes) await client.query(`DROP INDEX ${name}`);
    const firstDay = Date.now() / 1000 - plan.days * 86_400;
    await client.query('BEGIN');
    await client.query('SET LOCAL session_replication_role = replica');
    // Entries of an account are in the order of time.
    await client.query(
      'UPDATE ledger_entry SET created_at = least(created_at, to_timestamp($1)) WHERE organization_id = $2',
      [firstDay, plan.organizationId],
    );
    await client.query('COMMIT');
    for (let day = 0; day < plan.days; day += 1) {
      const share = (total: number): number =>
        Math.floor((total * (day + 1)) / plan.days) - Math.floor((total * day) / plan.days);
      await client.query('BEGIN');
      // Foreign keys and triggers would check each row again.
      await client.query('SET LOCAL session_replication_role = replica');
      await client.query(makeDay, [
        firstDay + day * 86_400,
        share(plan.jobs),
        share(plan.chats),
        plan.keyIds,
        plan.organizationId,
      ]);
      for (const statement of insertDay) await client.query(statement);
      await client.query('COMMIT');
      report(day + 1);
    }
    await client.query(`SET maintenance_work_mem = '1GB'`);
    for (const { definition } of indexes) await client.query(definition);
    await client.query('VACUUM ANALYZE');
  } finally {
    await client.end();
  }
}
