-- Webhook endpoints of callers (webhooks/endpoints.ts).

CREATE TABLE webhook_endpoint (
  id text PRIMARY KEY,
  organization_id text NOT NULL REFERENCES organization,
  url text NOT NULL,
  -- Types of the events that are sent, such as `studio.job.completed`.
  events text[] NOT NULL,
  description text NOT NULL,
  -- True while its webhooks wait.
  paused boolean NOT NULL DEFAULT false,
  -- Generations of secrets that sign its webhooks. The secrets themselves are derived, never stored.
  secrets jsonb NOT NULL DEFAULT '[{"generation": 1, "retires_at": null}]',
  -- Numbers of delivered webhooks and of failed attempts, and the result of the last attempt.
  delivered bigint NOT NULL DEFAULT 0,
  failed bigint NOT NULL DEFAULT 0,
  last_status integer,
  last_error text,
  last_delivered_at timestamptz,
  -- Start of the first attempt that failed after the last delivery; null if none has.
  failing_since timestamptz,
  created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  updated_at timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (fillfactor = 70);
CREATE INDEX webhook_endpoint_of_organization ON webhook_endpoint (organization_id, id DESC);

-- Endpoint that receives the webhook; null if the request named a URL. The `subject_id` then is the
-- id of the event, a dot and the id of the endpoint, which may have been deleted since.
ALTER TABLE webhook ADD COLUMN endpoint_id text;
CREATE INDEX webhook_of_event ON webhook (split_part(subject_id, '.', 1)) WHERE job_id IS NULL AND endpoint_id IS NOT NULL;
CREATE INDEX webhook_of_endpoint ON webhook (endpoint_id, job_id DESC, subject_id DESC) WHERE endpoint_id IS NOT NULL;
CREATE INDEX webhook_undelivered ON webhook (endpoint_id) WHERE endpoint_id IS NOT NULL AND state <> 'delivered';
