-- Columns and the table of the list of requests (request-log/).

-- Columns of a chat: whether it is a request for embeddings, the time from its reservation to the first
-- output of a stream, and the code of the error with which it failed.
ALTER TABLE reservation ADD COLUMN embedding boolean, ADD COLUMN first_token_ms integer, ADD COLUMN error_code text;

-- Rejected requests of the last 24 hours, at most a fixed number for each organization
-- (rejected-requests.sql). They contain no part of a body but the name of the model and of a field.
CREATE TABLE rejected_request (
  id text NOT NULL,
  organization_id text NOT NULL,
  key_id text NOT NULL,
  created_at timestamptz NOT NULL,
  kind text NOT NULL CHECK (kind IN ('chat', 'embedding', 'studio')),
  -- Path of the endpoint, with the names of its parameters.
  path text NOT NULL,
  model text,
  status integer NOT NULL,
  error_code text NOT NULL,
  -- First invalid field of the request.
  field text,
  request_id text NOT NULL,
  duration_ms integer NOT NULL,
  PRIMARY KEY (organization_id, created_at, id)
);
CREATE INDEX rejected_request_by_age ON rejected_request (created_at);
