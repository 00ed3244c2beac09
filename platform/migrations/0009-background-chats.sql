-- Chat jobs (chat/chat-jobs.ts): their requests, and their answers in pieces, as they arrived. The rows are
-- deleted some time after the end of the job, whose own rows remain.
CREATE TABLE chat_job (
  id text PRIMARY KEY,
  organization_id text NOT NULL REFERENCES organization,
  -- Format of the request and of the answer.
  format text NOT NULL CHECK (format IN ('chat', 'completions', 'responses')),
  -- Request without its messages, models, and messages, as JSON texts, because numbers in tools keep their
  -- digits. The messages are removed at the end of the job.
  request text NOT NULL,
  models jsonb NOT NULL,
  messages text,
  created_at timestamptz NOT NULL DEFAULT now(),
  -- Time at which the caller deleted the answer.
  deleted_at timestamptz
);
CREATE INDEX chat_job_by_age ON chat_job (created_at);
CREATE INDEX chat_job_deleted ON chat_job (id) WHERE deleted_at IS NOT NULL;
CREATE INDEX chat_job_with_messages ON chat_job (organization_id) WHERE messages IS NOT NULL;

CREATE TABLE chat_piece (
  job_id text NOT NULL REFERENCES chat_job ON DELETE CASCADE,
  number integer NOT NULL,
  -- {servedBy, steps}: the model, and the steps of its answer.
  content json NOT NULL,
  PRIMARY KEY (job_id, number)
);
