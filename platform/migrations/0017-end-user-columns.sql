-- Fields without a value of the end user's own, for which those of `*` apply: suspended, limit, rateLimit
-- (ledger/end-user-limits.sql).
ALTER TABLE end_user ADD COLUMN inherited text[] NOT NULL DEFAULT '{}';

-- End user of the rejected request; null if it named none, or was rejected before its body was read.
ALTER TABLE rejected_request ADD COLUMN end_user text;
