-- End users (ledger/end-user-limits.sql): limits that an organization sets for the people that it serves.

CREATE TABLE end_user (
  organization_id text NOT NULL REFERENCES account,
  -- Text of the organization's own. `*`: limits of all end users without a row.
  id text NOT NULL,
  suspended boolean NOT NULL DEFAULT false,
  -- Credits in a calendar period (UTC), as of an API key.
  limit_micro bigint CHECK (limit_micro >= 0),
  limit_per text CHECK (limit_per IN ('day', 'week', 'month', 'total')),
  -- Jobs and chats per minute.
  rate_limit integer CHECK (rate_limit > 0),
  updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (organization_id, id),
  CHECK ((limit_micro IS NULL) = (limit_per IS NULL))
);

-- Budgets that count the reservation beside `budget_id`: that of its end user. Null if there are none.
ALTER TABLE reservation ADD COLUMN further_budgets text[];

-- Budgets of end users, whose ids are those of their organizations, `/`, and the end user.
CREATE INDEX budget_of_end_user ON budget_spend (budget_id COLLATE "C", day) WHERE budget_id LIKE 'org\_%';
CREATE INDEX archived_budget_of_end_user ON archived_spend (budget_id COLLATE "C", day) WHERE budget_id LIKE 'org\_%';

-- Periods in which a reservation used 80 % of the limit of an end user or was rejected because of it. The
-- sweeper sends notices about them (webhooks/notices.sql).
CREATE TABLE end_user_mark (
  organization_id text NOT NULL REFERENCES account,
  end_user text NOT NULL,
  limit_micro bigint NOT NULL,
  limit_per text NOT NULL,
  -- First day of the period.
  starts date NOT NULL,
  -- True if a reservation was rejected.
  rejected boolean NOT NULL,
  PRIMARY KEY (organization_id, end_user, limit_micro, limit_per, starts, rejected)
);

-- Notices about limits of end users.
ALTER TABLE account_notice ADD COLUMN end_user text;
ALTER TABLE account_notice DROP CONSTRAINT account_notice_type_check, DROP CONSTRAINT account_notice_check,
  DROP CONSTRAINT account_notice_check1,
  ADD CHECK (type IN ('account.balance.low', 'key.limit.near', 'key.limit.reached', 'end_user.limit.near', 'end_user.limit.reached')),
  ADD CHECK ((type = 'account.balance.low') = (coalesce(key_id, end_user) IS NULL)),
  ADD CHECK ((type = 'account.balance.low') = (period IS NULL));
CREATE UNIQUE INDEX account_notice_of_end_user ON account_notice (organization_id, end_user, period, type)
  WHERE end_user IS NOT NULL;
