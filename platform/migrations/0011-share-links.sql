-- Share links: show the result of a job to people without a key (studio/jobs/share-links.ts).

CREATE TABLE share_link (
  id text PRIMARY KEY,
  -- SHA-256 of the token in the URL, which is not stored.
  token_hash bytea NOT NULL UNIQUE,
  organization_id text NOT NULL REFERENCES organization,
  -- The archive deletes the row of the job, and its links with it.
  job_id text NOT NULL REFERENCES job ON DELETE CASCADE,
  -- Key that created the link.
  key_id text NOT NULL REFERENCES api_key,
  created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  expires_at timestamptz NOT NULL,
  revoked_at timestamptz,
  -- Number of times that the link was opened, and the last time.
  openings bigint NOT NULL DEFAULT 0,
  last_opened_at timestamptz
);
CREATE INDEX share_link_of_job ON share_link (job_id);
CREATE INDEX share_link_of_organization ON share_link (organization_id, id DESC);
