-- Operators, each with a key of their own beside the deployment's ADMIN_API_KEY. `mac` is HMAC-SHA256(pepper, key). A row
-- stays when its key is revoked: `admin_action` has the operator's name.
CREATE TABLE operator (
  id text PRIMARY KEY,
  name text NOT NULL,
  prefix text NOT NULL,
  mac bytea NOT NULL UNIQUE,
  created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  revoked_at timestamptz,
  last_used_at timestamptz
);
-- A name in the record of actions is one person.
CREATE UNIQUE INDEX operator_name ON operator (lower(name)) WHERE revoked_at IS NULL;
