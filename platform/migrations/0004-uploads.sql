-- Files that callers upload to use as inputs. A row is made with the signed URL; `completed_at` says
-- that the object was seen in the storage, with the size and type that were agreed.
CREATE TABLE upload (
  id text PRIMARY KEY,
  organization_id text NOT NULL REFERENCES organization,
  key_id text NOT NULL REFERENCES api_key,
  storage_key text NOT NULL UNIQUE,
  -- Null until the object is there, when the caller named neither a type nor a file name.
  content_type text,
  -- Null until the object is there, when the caller named no size.
  size_bytes bigint CHECK (size_bytes > 0),
  -- Null for objects that went to the store directly.
  sha256 text,
  filename text,
  purpose text,
  created_at timestamptz NOT NULL DEFAULT now(),
  -- When the signed URL ends.
  expires_at timestamptz NOT NULL,
  completed_at timestamptz,
  CHECK (completed_at IS NULL OR (content_type IS NOT NULL AND size_bytes IS NOT NULL))
);
CREATE INDEX upload_of_organization ON upload (organization_id, created_at DESC);
CREATE INDEX upload_incomplete ON upload (expires_at) WHERE completed_at IS NULL;
