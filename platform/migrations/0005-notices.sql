-- Notices: what an organization wants to be told of its credits, and what it was told (notices.sql).

CREATE TABLE notice_target (
  organization_id text PRIMARY KEY REFERENCES organization,
  -- Null: nobody is told.
  url text,
  low_balance_micro bigint CHECK (low_balance_micro >= 0),
  -- The balance is low, and that was told.
  balance_is_low boolean NOT NULL DEFAULT false
);

-- Append-only. The row of `webhook` with its id says where its delivery stands.
CREATE TABLE notice (
  id text PRIMARY KEY,
  organization_id text NOT NULL REFERENCES organization,
  type text NOT NULL CHECK (type IN ('account.balance.low', 'key.limit.near', 'key.limit.reached')),
  -- Amounts in micro-credits.
  body jsonb NOT NULL,
  -- Of a limit: the key at which it stands, and the limit with its period. Each is told once of each.
  key_id text REFERENCES api_key,
  period text,
  created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  CHECK ((type = 'account.balance.low') = (key_id IS NULL)),
  CHECK ((key_id IS NULL) = (period IS NULL)),
  UNIQUE (key_id, period, type)
);
CREATE INDEX notice_of_organization ON notice (organization_id, created_at DESC);

-- Limits that refused something, by the UTC day: they are reached although less than all is used.
CREATE TABLE budget_refusal (
  budget_id text NOT NULL,
  limit_micro bigint NOT NULL,
  day date NOT NULL,
  PRIMARY KEY (budget_id, limit_micro, day)
);

CREATE INDEX api_key_of_organization ON api_key (organization_id);
