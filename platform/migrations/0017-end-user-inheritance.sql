-- Fields without a value of the end user's own, for which those of `*` apply: suspended, limit, rateLimit
-- (ledger/end-user-limits.sql).
ALTER TABLE end_user ADD COLUMN inherited text[] NOT NULL DEFAULT '{}';
