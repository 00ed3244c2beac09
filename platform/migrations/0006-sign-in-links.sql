-- Links that sign in to the console once, for the key that made them.

CREATE TABLE sign_in_link (
  -- SHA-256 of the word in the link.
  token_hash bytea PRIMARY KEY,
  key_id text NOT NULL REFERENCES api_key,
  expires_at timestamptz NOT NULL
);
