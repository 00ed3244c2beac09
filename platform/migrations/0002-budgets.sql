-- Budgets: how many credits a key may spend in a calendar period (UTC). A key has a budget of its own, or spends from
-- that of another key: of the one whose place it took, or of the limited one that made it.
ALTER TABLE api_key
  ADD budget_of text REFERENCES api_key,
  ADD limit_micro bigint CHECK (limit_micro >= 0),
  ADD limit_per text CHECK (limit_per IN ('day', 'week', 'month', 'total')),
  ADD CHECK ((limit_micro IS NULL) = (limit_per IS NULL)),
  -- The limit stands at the key whose budget it is.
  ADD CHECK (budget_of IS NULL OR limit_micro IS NULL);

WITH RECURSIVE successor AS (
  SELECT k.replaced_by AS id, k.id AS first FROM api_key k
    WHERE k.replaced_by IS NOT NULL
      AND NOT EXISTS (SELECT FROM api_key older WHERE older.replaced_by = k.id)
  UNION ALL
  SELECT k.replaced_by, s.first FROM successor s JOIN api_key k ON k.id = s.id
    WHERE k.replaced_by IS NOT NULL
)
UPDATE api_key k SET budget_of = s.first FROM successor s WHERE k.id = s.id;

-- The budget that a job or chat counts in; of a lease none: its chats count when they are booked.
ALTER TABLE reservation ADD budget_id text;
UPDATE reservation r SET budget_id = coalesce(k.budget_of, k.id)
  FROM (SELECT id, key_id FROM job UNION ALL SELECT id, key_id FROM chat_request) AS asked
    JOIN api_key k ON k.id = asked.key_id
  WHERE r.id = asked.id;

-- Micro-credits reserved and charged of a budget, by the UTC day on which the job or chat began. Kept for keys without
-- a limit too, so that one which is set later counts what its period has seen.
CREATE TABLE budget_spend (
  budget_id text NOT NULL,
  day date NOT NULL,
  spent bigint NOT NULL,
  PRIMARY KEY (budget_id, day)
) WITH (fillfactor = 50);

INSERT INTO budget_spend
  SELECT budget_id, (created_at AT TIME ZONE 'UTC')::date, sum(spent) FROM (
    SELECT r.budget_id, r.created_at,
        CASE r.state WHEN 'reserved' THEN r.amount ELSE coalesce(r.charged, 0) END AS spent
      FROM reservation r WHERE r.budget_id IS NOT NULL
    UNION ALL
    SELECT coalesce(k.budget_of, k.id), l.created_at, l.amount
      FROM leased_chat l JOIN api_key k ON k.id = l.key_id WHERE l.state = 'charged') AS spends
    GROUP BY 1, 2;
