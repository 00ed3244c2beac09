-- Requests of the last minute, shared by all API processes: a sliding window (access.sql). UNLOGGED: a crash of
-- Postgres may let one minute count twice, which is cheaper than a disk write per request.
DROP TABLE rate_window;
CREATE UNLOGGED TABLE rate_window (
  key_id text NOT NULL,
  bucket text NOT NULL,
  -- Unix ms, ascending, and how many requests came then.
  times bigint[] NOT NULL,
  counts integer[] NOT NULL,
  -- The sum of the counts.
  hits integer NOT NULL,
  PRIMARY KEY (key_id, bucket)
) WITH (fillfactor = 50);
