-- Browser tokens (identity/browser-tokens.ts): short keys of one end user, which an API key makes.

CREATE TABLE browser_token (
  id text PRIMARY KEY,
  organization_id text NOT NULL REFERENCES organization,
  end_user text NOT NULL,
  -- API key that made the token. The token ends with it, and spends from its budget.
  key_id text NOT NULL REFERENCES api_key,
  -- HMAC-SHA256(pepper, token); the token itself is never stored.
  mac bytea NOT NULL UNIQUE,
  scopes text[] NOT NULL,
  allowed_models text[],
  -- Micro-credits that may be reserved and charged with the token. Null: no limit of its own.
  max_micro bigint CHECK (max_micro >= 0),
  -- Micro-credits that are reserved and charged. Changes with each reservation and settlement (ledger.sql).
  spent_micro bigint NOT NULL DEFAULT 0,
  created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  expires_at timestamptz NOT NULL,
  revoked_at timestamptz
);
CREATE INDEX browser_token_of_end_user ON browser_token (organization_id, end_user, id);
CREATE INDEX browser_token_by_end ON browser_token (expires_at);

-- Browser token of the request; null if it had an API key. Without a foreign key: the rows of expired
-- tokens are deleted.
ALTER TABLE reservation ADD COLUMN token_id text;
CREATE INDEX reservation_of_token ON reservation (token_id) WHERE token_id IS NOT NULL;

-- End user that uploaded the file with a browser token; null if an API key uploaded it.
ALTER TABLE upload ADD COLUMN end_user text;
CREATE INDEX upload_of_end_user ON upload (organization_id, end_user, created_at DESC) WHERE end_user IS NOT NULL;
