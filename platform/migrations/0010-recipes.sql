-- Saved recipes: named bodies of Studio requests (studio/requests/recipe-versions.ts).

CREATE TABLE recipe (
  organization_id text NOT NULL REFERENCES organization,
  name text NOT NULL,
  -- Start of the hash of `use` and `body`.
  version text NOT NULL,
  -- Studio endpoint that accepts the body, such as `image/generate`, `pipelines` or `bulk`.
  use text NOT NULL,
  body jsonb NOT NULL,
  size_bytes integer NOT NULL,
  -- Key that saved the version last.
  key_id text NOT NULL REFERENCES api_key,
  -- Time at which the version was saved last. The newest version of a name is used by default.
  saved_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (organization_id, name, version)
);

-- Recipe of the request, as `name@version`; null if it had none.
ALTER TABLE job ADD COLUMN recipe text;
ALTER TABLE bulk ADD COLUMN recipe text;
ALTER TABLE bulk_item ADD COLUMN recipe text;
