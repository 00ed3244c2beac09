-- Tags of jobs and chats, what their lists are found by, and files that their owners delete.

ALTER TABLE job ADD COLUMN metadata jsonb;
ALTER TABLE chat_request ADD COLUMN metadata jsonb;
ALTER TABLE leased_chat ADD COLUMN metadata jsonb;

-- A row for each pair of `metadata`, by which jobs and chats are found (tags.sql). Without foreign keys, as
-- leased_chat: nothing that it names is ever deleted.
CREATE TABLE tag (
  organization_id text NOT NULL,
  name text NOT NULL,
  value text NOT NULL,
  -- Of the job or chat.
  created_at timestamptz NOT NULL,
  id text NOT NULL,
  PRIMARY KEY (organization_id, name, value, created_at, id)
);

-- None of their columns changes when a job is charged: that stays an update within its page.
CREATE INDEX job_of_type ON job (organization_id, type, created_at DESC, id DESC);
CREATE INDEX job_of_model ON job (organization_id, model, created_at DESC, id DESC);
CREATE INDEX job_undelivered ON job (organization_id, created_at DESC, id DESC) WHERE error IS NOT NULL;

-- When its owner deleted what the job made.
ALTER TABLE job ADD COLUMN media_deleted_at timestamptz;
-- The row stays, for the audit; the object is gone from `removed_at` on.
ALTER TABLE artifact ADD COLUMN deleted_at timestamptz, ADD COLUMN removed_at timestamptz;
CREATE INDEX artifact_to_remove ON artifact (deleted_at) WHERE deleted_at IS NOT NULL AND removed_at IS NULL;
CREATE INDEX artifact_of_organization ON artifact (organization_id, created_at DESC, storage_key DESC);

-- Of a file that its owner deleted nothing is counted; the row goes when nothing can come any more.
ALTER TABLE upload ADD COLUMN deleted_at timestamptz;

-- When the provider took a call, when its outputs were there, and how often it was sent: the steps of a job.
ALTER TABLE provider_call ADD COLUMN accepted_at timestamptz, ADD COLUMN answered_at timestamptz,
  ADD COLUMN attempts integer NOT NULL DEFAULT 1;
