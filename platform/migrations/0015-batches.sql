-- Batches of OpenAI's API, which are bulk jobs (bulk/batches.ts).
ALTER TABLE bulk
  -- Input file and endpoint, errors of an input file that was not accepted, and what is known of the output
  -- files (bulk/batch-files.ts). Null for other bulk jobs.
  ADD COLUMN batch jsonb,
  -- Time at which the items that have not started are canceled; null if there is none.
  ADD COLUMN expires_at timestamptz,
  -- Time at which it was canceled or expired; null if it was not.
  ADD COLUMN canceled_at timestamptz;
CREATE INDEX bulk_batch ON bulk (organization_id, id DESC) WHERE batch IS NOT NULL;
CREATE INDEX upload_of_lines ON upload (organization_id, created_at) WHERE content_type = 'application/jsonl';
CREATE INDEX bulk_expiring ON bulk (expires_at) WHERE expires_at IS NOT NULL AND status IN ('in_progress', 'paused', 'stopped');
