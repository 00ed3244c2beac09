-- Tables of the archive and of the reports by the day of booking (ledger/archive.sql,
-- ledger/booked-days.sql).

-- Sums of the archived jobs and chats that began in a UTC month. The audit compares the usage report
-- of each such month with them.
CREATE TABLE archived_month (
  organization_id text NOT NULL REFERENCES account,
  -- First day of the month.
  month date NOT NULL,
  requests bigint NOT NULL,
  -- Micro-credits charged, less refunds.
  net bigint NOT NULL,
  input_tokens bigint NOT NULL,
  output_tokens bigint NOT NULL,
  PRIMARY KEY (organization_id, month)
);
INSERT INTO archived_month
  SELECT organization_id, date_trunc('month', day)::date, sum(requests), sum(net), sum(input_tokens), sum(output_tokens)
  FROM usage_day WHERE archived GROUP BY 1, 2;

-- Sums of the charges, releases and refunds that were booked on a UTC day. They never change, because
-- ledger entries never change.
CREATE TABLE booked_day (
  organization_id text NOT NULL REFERENCES account,
  day date NOT NULL,
  -- Type, model, key and status as in `usage_day`.
  type text NOT NULL,
  model text,
  key_id text NOT NULL,
  status text NOT NULL,
  -- Jobs and chats that ended; a refund is none.
  requests bigint NOT NULL,
  net bigint NOT NULL,
  input_tokens bigint NOT NULL,
  output_tokens bigint NOT NULL
);
CREATE INDEX booked_of_organization ON booked_day (organization_id, day);

-- First ledger entry of an account that is not summed up in `booked_day` yet, and the sum of the
-- grants before it.
CREATE TABLE booked_account (
  organization_id text PRIMARY KEY REFERENCES account,
  next_sequence bigint NOT NULL DEFAULT 1,
  granted bigint NOT NULL DEFAULT 0
);

-- The entries of earlier archives are no longer in the database. They count on the day on which their
-- job or chat began.
INSERT INTO booked_day
  SELECT organization_id, day, type, model, key_id, status, sum(requests), sum(net), sum(input_tokens), sum(output_tokens)
  FROM usage_day WHERE archived GROUP BY 1, 2, 3, 4, 5, 6;
