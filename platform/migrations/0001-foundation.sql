-- Organizations, users and API keys; the ledger; Studio jobs and what belongs to them.
-- Ids are text with a prefix that names their kind; times are timestamptz of the database's clock;
-- amounts are bigint micro-credits (1 credit = 1,000,000).

CREATE TABLE organization (
  id text PRIMARY KEY,
  name text NOT NULL,
  status text NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'suspended')),
  created_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE member (
  id text PRIMARY KEY,
  organization_id text NOT NULL REFERENCES organization,
  name text NOT NULL,
  role text NOT NULL CHECK (role IN ('owner', 'admin', 'member', 'viewer')),
  created_at timestamptz NOT NULL DEFAULT now()
);

-- `mac` is HMAC-SHA256(pepper, key): the key itself is never stored.
CREATE TABLE api_key (
  id text PRIMARY KEY,
  organization_id text NOT NULL REFERENCES organization,
  member_id text NOT NULL REFERENCES member,
  name text NOT NULL,
  prefix text NOT NULL,
  mac bytea NOT NULL UNIQUE,
  scopes text[] NOT NULL,
  allowed_models text[],
  created_at timestamptz NOT NULL DEFAULT now(),
  expires_at timestamptz,
  revoked_at timestamptz,
  last_used_at timestamptz
);
CREATE INDEX api_key_member ON api_key (member_id) WHERE revoked_at IS NULL;

-- Counters of the current minute, shared by all API processes. UNLOGGED: a crash of Postgres may let
-- one minute count twice, which is cheaper than a disk write per request.
CREATE UNLOGGED TABLE rate_window (
  key_id text NOT NULL,
  bucket text NOT NULL,
  window_start bigint NOT NULL,
  hits integer NOT NULL,
  PRIMARY KEY (key_id, bucket)
) WITH (fillfactor = 50);

-- Ledger ---------------------------------------------------------------------------------------

CREATE TABLE account (
  organization_id text PRIMARY KEY REFERENCES organization,
  posted bigint NOT NULL DEFAULT 0 CHECK (posted >= 0),
  reserved bigint NOT NULL DEFAULT 0 CHECK (reserved >= 0),
  window_started_at timestamptz,
  window_used bigint NOT NULL DEFAULT 0 CHECK (window_used >= 0),
  window_limit bigint CHECK (window_limit >= 0),
  sequence bigint NOT NULL DEFAULT 0,
  CHECK (reserved <= posted)
) WITH (fillfactor = 50);

CREATE TABLE reservation (
  id text PRIMARY KEY,
  organization_id text NOT NULL REFERENCES account,
  kind text NOT NULL CHECK (kind IN ('studio', 'chat')),
  amount bigint NOT NULL CHECK (amount >= 0),
  charged bigint,
  state text NOT NULL DEFAULT 'reserved' CHECK (state IN ('reserved', 'charged', 'released')),
  reason text,
  window_started_at timestamptz,
  -- When the sweeper next asks whether a workflow still owns this.
  expires_at timestamptz NOT NULL,
  -- When it first found none.
  owner_missing_at timestamptz,
  created_at timestamptz NOT NULL,
  settled_at timestamptz,
  CHECK ((state = 'reserved') = (settled_at IS NULL)),
  CHECK ((state = 'charged') = (charged IS NOT NULL)),
  CHECK (charged BETWEEN 0 AND amount)
) WITH (fillfactor = 80);
CREATE INDEX reservation_open ON reservation (expires_at) WHERE state = 'reserved';
CREATE INDEX reservation_of_organization ON reservation (organization_id, created_at DESC);

-- Append-only. One settle key per reservation is shared by charge and release: only one can happen.
CREATE TABLE ledger_entry (
  organization_id text NOT NULL REFERENCES account,
  sequence bigint NOT NULL,
  idempotency_key text NOT NULL,
  kind text NOT NULL CHECK (kind IN ('grant', 'reserve', 'charge', 'release')),
  reservation_id text REFERENCES reservation,
  posted_change bigint NOT NULL,
  reserved_change bigint NOT NULL,
  posted_after bigint NOT NULL,
  reserved_after bigint NOT NULL,
  actor text,
  reason text,
  created_at timestamptz NOT NULL,
  PRIMARY KEY (organization_id, sequence),
  UNIQUE (organization_id, idempotency_key)
);
CREATE INDEX ledger_entry_of_reservation ON ledger_entry (reservation_id);

CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'ledger_entry is append-only';
END $$;
CREATE TRIGGER ledger_entry_append_only BEFORE UPDATE OR DELETE ON ledger_entry
  FOR EACH ROW EXECUTE FUNCTION refuse_change();

-- Studio jobs ----------------------------------------------------------------------------------

CREATE TABLE job (
  id text PRIMARY KEY REFERENCES reservation,
  organization_id text NOT NULL REFERENCES organization,
  key_id text NOT NULL REFERENCES api_key,
  type text NOT NULL,
  model text,
  provider text NOT NULL,
  status text NOT NULL DEFAULT 'queued' CHECK (status IN ('queued', 'completed', 'failed', 'canceled')),
  verifying boolean NOT NULL DEFAULT false,
  request jsonb NOT NULL,
  outputs jsonb,
  error jsonb,
  request_id text NOT NULL,
  created_at timestamptz NOT NULL,
  deadline_at timestamptz NOT NULL,
  completed_at timestamptz,
  CHECK ((status = 'queued') = (completed_at IS NULL)),
  CHECK ((status = 'completed') = (outputs IS NOT NULL)),
  CHECK ((status IN ('failed', 'canceled')) = (error IS NOT NULL))
) WITH (fillfactor = 80);
CREATE INDEX job_of_organization ON job (organization_id, created_at DESC, id DESC);

-- One row per call of a job, written before the provider is asked: a call whose row says `begun` may
-- have reached the provider, so it is never sent again.
CREATE TABLE provider_call (
  job_id text NOT NULL REFERENCES job,
  call_index integer NOT NULL,
  route_index integer NOT NULL,
  provider text NOT NULL,
  state text NOT NULL CHECK (state IN ('begun', 'refused', 'accepted', 'answered', 'unknown')),
  operation jsonb,
  outputs jsonb,
  progress jsonb,
  begun_at timestamptz NOT NULL DEFAULT now(),
  updated_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (job_id, call_index)
) WITH (fillfactor = 70);

CREATE TABLE artifact (
  storage_key text PRIMARY KEY,
  job_id text NOT NULL REFERENCES job,
  organization_id text NOT NULL,
  content_type text NOT NULL,
  size_bytes bigint NOT NULL CHECK (size_bytes > 0),
  sha256 text NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX artifact_of_job ON artifact (job_id);

-- Verified webhooks, kept until the workflow has been told.
CREATE TABLE notification (
  provider text NOT NULL,
  job_id text NOT NULL,
  call_index integer NOT NULL,
  operation_id text NOT NULL,
  received_at timestamptz NOT NULL DEFAULT now(),
  deliveries integer NOT NULL DEFAULT 1,
  state text NOT NULL DEFAULT 'received' CHECK (state IN ('received', 'delivered', 'late')),
  PRIMARY KEY (job_id, call_index, operation_id)
);
CREATE INDEX notification_waiting ON notification (received_at) WHERE state = 'received';

-- Idempotency-Key claims: the job that a key stands for, made before the job is admitted.
CREATE TABLE idempotency_claim (
  organization_id text NOT NULL REFERENCES organization,
  idempotency_key text NOT NULL,
  fingerprint text NOT NULL,
  job_id text NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (organization_id, idempotency_key)
);
CREATE INDEX idempotency_claim_age ON idempotency_claim (created_at);
