-- All tables. Ids are text with a prefix that names their kind; times are timestamptz of the
-- database's clock; amounts are bigint micro-credits (1 credit = 1,000,000). Functions, views and
-- triggers are in the folders of their subjects.

-- Who calls ------------------------------------------------------------------------------------

CREATE TABLE organization (
  id text PRIMARY KEY,
  name text NOT NULL,
  status text NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'suspended')),
  -- Sums over the organization's uploads (storage/uploads.sql).
  upload_bytes bigint NOT NULL DEFAULT 0 CHECK (upload_bytes >= 0),
  created_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE member (
  id text PRIMARY KEY,
  organization_id text NOT NULL REFERENCES organization,
  name text NOT NULL,
  role text NOT NULL CHECK (role IN ('owner', 'admin', 'member', 'viewer')),
  created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX member_of_organization ON member (organization_id, id);

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
  last_used_at timestamptz,
  -- Successor of a rotated key, which still works for its overlap but no longer counts.
  replaced_by text REFERENCES api_key,
  -- Budget: credits that the key may spend in a calendar period (UTC). A key has its own budget, or
  -- uses that of another key: of the one that it replaced, or of the limited key that created it.
  budget_of text REFERENCES api_key,
  limit_micro bigint CHECK (limit_micro >= 0),
  limit_per text CHECK (limit_per IN ('day', 'week', 'month', 'total')),
  CHECK ((limit_micro IS NULL) = (limit_per IS NULL)),
  -- The limit is a column of the key whose budget is used.
  CHECK (budget_of IS NULL OR limit_micro IS NULL)
);
CREATE INDEX api_key_member ON api_key (member_id) WHERE revoked_at IS NULL;
CREATE INDEX api_key_of_organization ON api_key (organization_id);

-- Rate limit windows of one minute, shared by all API processes (access.sql). UNLOGGED, because
-- counting one minute twice after a crash of Postgres costs less than a disk write per request.
CREATE UNLOGGED TABLE rate_window (
  key_id text NOT NULL,
  bucket text NOT NULL,
  started_at timestamptz NOT NULL,
  hits integer NOT NULL,
  PRIMARY KEY (key_id, bucket)
) WITH (fillfactor = 50);

-- Sessions of the console. A cookie holds the token; the row is deleted when the session ends.
CREATE TABLE console_session (
  id text PRIMARY KEY,
  -- SHA-256 of the token.
  token_hash bytea NOT NULL UNIQUE,
  -- The session acts for an API key, or for the holder of an operator's key.
  key_id text REFERENCES api_key,
  operator_mac bytea,
  -- Name of the operator that is recorded with actions.
  name text,
  created_at timestamptz NOT NULL DEFAULT now(),
  expires_at timestamptz NOT NULL,
  CHECK ((key_id IS NULL) <> (operator_mac IS NULL))
);
CREATE INDEX console_session_of_key ON console_session (key_id);

-- One-time sign-in links to the console, for the key that created them.
CREATE TABLE sign_in_link (
  -- SHA-256 of the token in the link.
  token_hash bytea PRIMARY KEY,
  key_id text NOT NULL REFERENCES api_key,
  expires_at timestamptz NOT NULL
);

-- Claims of Idempotency-Keys, made before the job or chat is created (idempotency.sql).
CREATE TABLE idempotency_claim (
  organization_id text NOT NULL REFERENCES organization,
  idempotency_key text NOT NULL,
  fingerprint text NOT NULL,
  -- Id of the job, chat, file, key or other thing that the request creates.
  subject_id text NOT NULL,
  -- Request that holds the claim. A takeover stores its own request here, so that late statements
  -- of the former holder change nothing.
  attempt text,
  -- `held`: nothing was started under the key. `started`: a start was sent, and may arrive at any
  -- time. `done`: the job, chat or other result exists.
  state text NOT NULL DEFAULT 'held' CHECK (state IN ('held', 'started', 'done')),
  -- Renewed by its holder; after this time the claim may be taken over.
  held_until timestamptz NOT NULL DEFAULT now() + interval '10 seconds',
  -- Stored response of a request without a job: the answer of a chat, whole or as its stream.
  answer bytea,
  answer_type text,
  created_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (organization_id, idempotency_key)
);
CREATE INDEX idempotency_claim_age ON idempotency_claim (created_at);

-- Ledger ---------------------------------------------------------------------------------------

-- Domains, because Postgres parses each CHECK of a table again for every statement that writes the
-- table, which would take a fifth of the time of a move.
CREATE DOMAIN micro AS bigint CHECK (VALUE >= 0);
CREATE DOMAIN reservation_kind AS text CHECK (VALUE IN ('studio', 'chat'));
CREATE DOMAIN reservation_state AS text CHECK (VALUE IN ('reserved', 'charged', 'released'));
CREATE DOMAIN entry_kind AS text
  CHECK (VALUE IN ('grant', 'reserve', 'charge', 'release', 'refund'));
CREATE DOMAIN chat_counter AS text CHECK (VALUE IN ('provider', 'gateway'));

CREATE TABLE account (
  organization_id text PRIMARY KEY REFERENCES organization,
  posted micro NOT NULL DEFAULT 0,
  reserved micro NOT NULL DEFAULT 0,
  window_started_at timestamptz,
  window_used micro NOT NULL DEFAULT 0,
  window_limit micro,
  sequence bigint NOT NULL DEFAULT 0,
  CHECK (reserved <= posted)
) WITH (fillfactor = 50);

CREATE TABLE reservation (
  id text PRIMARY KEY,
  organization_id text NOT NULL REFERENCES account,
  kind reservation_kind NOT NULL,
  amount micro NOT NULL,
  charged micro,
  -- Part of `charged` that operators gave back, in micro-credits; null if nothing was refunded.
  refunded micro,
  state reservation_state NOT NULL DEFAULT 'reserved',
  reason text,
  window_started_at timestamptz,
  -- Time at which the sweeper next checks whether a workflow still owns the reservation.
  expires_at timestamptz NOT NULL,
  -- Time at which the sweeper first found no workflow.
  owner_missing_at timestamptz,
  created_at timestamptz NOT NULL,
  settled_at timestamptz,
  -- Key whose budget counts the reservation.
  budget_id text,
  -- A chat, with its progress. It runs without a workflow, so the sweeper settles it by its last
  -- checkpoint after a crash of the API. Null for Studio, whose jobs have a table of their own.
  key_id text REFERENCES api_key,
  model text,
  provider text,
  streamed boolean,
  request_id text,
  metadata jsonb,
  -- Tokens of the last checkpoint until the chat is settled, then the tokens charged for.
  input_tokens bigint,
  output_tokens bigint,
  -- Input tokens read from the provider's cache of prompts and written to it, and reasoning tokens of the output.
  cached_input_tokens bigint,
  cache_write_tokens bigint,
  reasoning_tokens bigint,
  -- `provider`, or `gateway` if its own count of the relayed tokens is charged. Null while running
  -- and if released.
  counted_by chat_counter,
  -- Price of the delivered tokens at the last checkpoint, in micro-credits.
  checkpoint_micro micro,
  -- Part of the price that neither the balance nor the budget of the key could pay, in micro-credits.
  loss_micro micro,
  -- A chat may cost more than its reservation, because the provider may count more tokens.
  CHECK ((state = 'reserved') = (settled_at IS NULL) AND (state = 'charged') = (charged IS NOT NULL)
    AND (kind = 'chat') = (key_id IS NOT NULL) AND (kind = 'chat' OR charged <= amount)
    AND coalesce(refunded, 0) <= coalesce(charged, 0))
) WITH (fillfactor = 80);
CREATE INDEX reservation_open ON reservation (expires_at) WHERE state = 'reserved';
CREATE INDEX chat_of_organization ON reservation (organization_id, created_at DESC, id DESC)
  WHERE kind = 'chat';
CREATE INDEX chat_of_key ON reservation (key_id, created_at DESC, id DESC) WHERE kind = 'chat';

-- Append-only. One settle key per reservation is shared by charge and release: only one can happen.
CREATE TABLE ledger_entry (
  organization_id text NOT NULL REFERENCES account,
  sequence bigint NOT NULL,
  idempotency_key text NOT NULL,
  kind entry_kind NOT NULL,
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
CREATE INDEX ledger_refund ON ledger_entry (reservation_id) WHERE kind = 'refund';

-- Micro-credits reserved and charged of a budget, by the UTC day on which the job or chat began.
-- Rows exist for keys without a limit too, so that a later limit counts the whole period.
CREATE TABLE budget_spend (
  budget_id text NOT NULL,
  day date NOT NULL,
  spent bigint NOT NULL,
  PRIMARY KEY (budget_id, day)
) WITH (fillfactor = 50);

-- Key limits that rejected a request, by UTC day: they are `reached` although less than all is used.
CREATE TABLE budget_rejection (
  budget_id text NOT NULL,
  limit_micro bigint NOT NULL,
  day date NOT NULL,
  PRIMARY KEY (budget_id, limit_micro, day)
);

-- Studio jobs ----------------------------------------------------------------------------------

CREATE TABLE job (
  id text PRIMARY KEY REFERENCES reservation,
  organization_id text NOT NULL REFERENCES organization,
  key_id text NOT NULL REFERENCES api_key,
  type text NOT NULL,
  model text,
  provider text NOT NULL,
  status text NOT NULL DEFAULT 'open' CHECK (status IN ('open', 'completed', 'failed', 'canceled')),
  verifying boolean NOT NULL DEFAULT false,
  request jsonb NOT NULL,
  -- Plan without its request, while the job is open: `resettle` starts the workflow again from it.
  plan jsonb,
  outputs jsonb,
  error jsonb,
  request_id text NOT NULL,
  created_at timestamptz NOT NULL,
  deadline_at timestamptz NOT NULL,
  completed_at timestamptz,
  metadata jsonb,
  -- Time at which the owner deleted the job's media.
  media_deleted_at timestamptz,
  CHECK ((status = 'open') = (completed_at IS NULL)),
  CHECK ((status = 'completed') = (outputs IS NOT NULL)),
  CHECK ((status IN ('failed', 'canceled')) = (error IS NOT NULL))
) WITH (fillfactor = 80);
CREATE INDEX job_of_organization ON job (organization_id, created_at DESC, id DESC);
CREATE INDEX job_of_request ON job (request_id);
CREATE INDEX job_of_key ON job (key_id, created_at DESC, id DESC);
-- Indexes over columns that a charge does not change, so that the charge stays a heap-only update.
-- The last one covers jobs that were released without an outcome of the provider.
CREATE INDEX job_of_type ON job (organization_id, type, created_at DESC, id DESC);
CREATE INDEX job_of_model ON job (organization_id, model, created_at DESC, id DESC);
CREATE INDEX job_undelivered ON job (organization_id, created_at DESC, id DESC) WHERE error IS NOT NULL;
CREATE INDEX job_without_outcome ON job (id)
  WHERE error->>'code' IN ('OUTCOME_UNKNOWN', 'DEADLINE_EXCEEDED', 'JOB_LOST');

-- One row per call of a job, written before the call is sent. A call in `begun` may have reached
-- the provider, so it is never sent again. `waiting`: not sent, because its provider is paused.
CREATE TABLE provider_call (
  job_id text NOT NULL REFERENCES job,
  call_index integer NOT NULL,
  route_index integer NOT NULL,
  provider text NOT NULL,
  -- Needed to find a call of which only the provider's request id is known.
  provider_endpoint text,
  -- Provider's id of the request that was sent last.
  provider_request_id text,
  state text NOT NULL
    CHECK (state IN ('waiting', 'begun', 'not_accepted', 'accepted', 'answered', 'unknown')),
  operation jsonb,
  outputs jsonb,
  progress jsonb,
  -- The attempt that began the call last.
  sender_id text,
  begun_at timestamptz NOT NULL DEFAULT now(),
  updated_at timestamptz NOT NULL DEFAULT now(),
  -- Times at which the provider accepted the call and its outputs were complete, and number of
  -- times that it was sent: the steps of a job.
  accepted_at timestamptz,
  answered_at timestamptz,
  attempts integer NOT NULL DEFAULT 1,
  -- Time at which the call first waited for a paused provider.
  paused_at timestamptz,
  -- Submits that the provider did not accept, oldest first: {routeIndex, provider, providerRequestId, message, failedAtMs}.
  failed_submits jsonb NOT NULL DEFAULT '[]',
  PRIMARY KEY (job_id, call_index)
) WITH (fillfactor = 70);
CREATE INDEX provider_call_of_request ON provider_call (provider_request_id)
  WHERE provider_request_id IS NOT NULL;

CREATE TABLE artifact (
  storage_key text PRIMARY KEY,
  job_id text NOT NULL REFERENCES job,
  organization_id text NOT NULL,
  content_type text NOT NULL,
  size_bytes bigint NOT NULL CHECK (size_bytes > 0),
  sha256 text NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  -- The row stays for the audit; the object is removed at `removed_at`.
  deleted_at timestamptz,
  removed_at timestamptz
);
CREATE INDEX artifact_of_job ON artifact (job_id);
CREATE INDEX artifact_to_remove ON artifact (deleted_at) WHERE deleted_at IS NOT NULL AND removed_at IS NULL;
CREATE INDEX artifact_of_organization ON artifact (organization_id, created_at DESC, storage_key DESC);

-- Verified webhooks of providers. `received`: not signaled to the workflow yet; the provider's
-- repeat signals it.
CREATE TABLE provider_notification (
  provider text NOT NULL,
  job_id text NOT NULL,
  call_index integer NOT NULL,
  operation_id text NOT NULL,
  received_at timestamptz NOT NULL DEFAULT now(),
  deliveries integer NOT NULL DEFAULT 1,
  state text NOT NULL DEFAULT 'received' CHECK (state IN ('received', 'delivered', 'late')),
  PRIMARY KEY (job_id, call_index, operation_id)
);


-- Chats ----------------------------------------------------------------------------------------

-- One row for each pair of `metadata`, by which jobs and chats are found (tags.sql). Without
-- foreign keys, because jobs and chats are never deleted.
CREATE TABLE tag (
  organization_id text NOT NULL,
  name text NOT NULL,
  value text NOT NULL,
  -- Creation time of the job or chat.
  created_at timestamptz NOT NULL,
  id text NOT NULL,
  PRIMARY KEY (organization_id, name, value, created_at, id)
);

-- Files of callers -----------------------------------------------------------------------------

-- Files that callers upload to use as inputs. The row is created with the signed URL;
-- `completed_at` is set when the object was found in the storage with the agreed size and type.
CREATE TABLE upload (
  id text PRIMARY KEY,
  organization_id text NOT NULL REFERENCES organization,
  key_id text NOT NULL REFERENCES api_key,
  storage_key text NOT NULL UNIQUE,
  -- Null until the object exists, if the caller named neither a type nor a file name.
  content_type text,
  -- Null until the object exists, if the caller named no size.
  size_bytes bigint CHECK (size_bytes > 0),
  -- Largest size that the URL permits.
  bytes_max bigint CHECK (bytes_max > 0),
  -- Null for objects that were sent directly to the store.
  sha256 text,
  filename text,
  purpose text,
  created_at timestamptz NOT NULL DEFAULT now(),
  -- Expiry of the signed URL.
  expires_at timestamptz NOT NULL,
  completed_at timestamptz,
  -- Time at which a request last named the file as an input.
  used_at timestamptz,
  -- Time until which a request is sending the file, unless it is renewed.
  receiving_until timestamptz,
  -- A file that its owner deleted counts nothing; the row is deleted when no signed URL can receive
  -- a file any more.
  deleted_at timestamptz,
  -- Bytes that count: the size of the object, or the size that may still arrive.
  counted_bytes bigint NOT NULL GENERATED ALWAYS AS (
    CASE WHEN completed_at IS NULL THEN coalesce(bytes_max, size_bytes, 0) ELSE size_bytes END
  ) STORED,
  CHECK (completed_at IS NULL OR (content_type IS NOT NULL AND size_bytes IS NOT NULL))
);
CREATE INDEX upload_of_organization ON upload (organization_id, created_at DESC);
CREATE INDEX upload_incomplete ON upload (expires_at) WHERE completed_at IS NULL;
CREATE INDEX upload_last_used ON upload (coalesce(used_at, completed_at))
  WHERE completed_at IS NOT NULL;

-- Copies of foreign inputs, recorded before the object is stored, so that none is forgotten. They
-- are removed when their request is rejected or their job is settled.
CREATE TABLE input_copy (
  storage_key text PRIMARY KEY,
  organization_id text NOT NULL REFERENCES organization,
  -- A rejected request has no such job.
  job_id text NOT NULL,
  created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX input_copy_by_age ON input_copy (created_at);

-- Webhooks of callers --------------------------------------------------------------------------

-- Created before the job is admitted, so that no accepted job lacks it; removed if the job is
-- refused.
CREATE TABLE webhook (
  -- Id of the job or account notice that the webhook reports, or `start_…` for the start of a job.
  subject_id text PRIMARY KEY,
  organization_id text NOT NULL REFERENCES organization,
  url text NOT NULL,
  -- Events of the job that are sent, by the name of the job's status, and `started`.
  events text[] NOT NULL DEFAULT '{completed,failed,canceled}',
  state text NOT NULL DEFAULT 'waiting'
    CHECK (state IN ('waiting', 'delivering', 'delivered', 'gone', 'failed')),
  attempts integer NOT NULL DEFAULT 0,
  -- Attempts before the last redelivery, which starts the retry delays again.
  attempts_before integer NOT NULL DEFAULT 0,
  -- Time of the next attempt; null if there is none.
  next_attempt_at timestamptz,
  -- Time after which the delivering workflow counts as lost.
  overdue_at timestamptz,
  created_at timestamptz NOT NULL DEFAULT now(),
  updated_at timestamptz NOT NULL DEFAULT now()
) WITH (fillfactor = 80);
CREATE INDEX webhook_open ON webhook (created_at) WHERE state IN ('waiting', 'delivering');
CREATE INDEX webhook_of_organization ON webhook (organization_id, subject_id DESC);

-- One row per attempt, created before it is sent; an attempt that never ended stays `sending`.
CREATE TABLE webhook_attempt (
  subject_id text NOT NULL REFERENCES webhook ON DELETE CASCADE,
  number integer NOT NULL,
  outcome text NOT NULL DEFAULT 'sending'
    CHECK (outcome IN ('sending', 'delivered', 'gone', 'failed')),
  status integer,
  -- Reason for a missing status.
  error text,
  -- Start of the receiver's response.
  response text,
  duration_ms integer,
  started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (subject_id, number)
) WITH (fillfactor = 80);

-- An organization without a row signs with generation 1; secrets are derived, never stored.
CREATE TABLE webhook_secret (
  organization_id text NOT NULL REFERENCES organization,
  generation integer NOT NULL CHECK (generation > 0),
  created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  -- Null for the newest secret. A later time: replaced, and still signing in addition to it.
  retires_at timestamptz,
  PRIMARY KEY (organization_id, generation)
);
CREATE UNIQUE INDEX webhook_secret_in_use ON webhook_secret (organization_id) WHERE retires_at IS NULL;

-- Account notices ------------------------------------------------------------------------------

-- Settings of an organization's notices of its credits, and the last ones (webhooks/notices.sql).
CREATE TABLE account_notice_target (
  organization_id text PRIMARY KEY REFERENCES organization,
  -- Null: no notices.
  url text,
  low_balance_micro bigint CHECK (low_balance_micro >= 0),
  -- True if the balance is low and this was reported.
  balance_is_low boolean NOT NULL DEFAULT false
);

-- Append-only. The row of `webhook` with the same id has the state of the delivery.
CREATE TABLE account_notice (
  id text PRIMARY KEY,
  organization_id text NOT NULL REFERENCES organization,
  type text NOT NULL CHECK (type IN ('account.balance.low', 'key.limit.near', 'key.limit.reached')),
  -- Amounts in micro-credits.
  body jsonb NOT NULL,
  -- Key that has the limit, and the limit with its period. Each is reported once per period.
  key_id text REFERENCES api_key,
  period text,
  created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  CHECK ((type = 'account.balance.low') = (key_id IS NULL)),
  CHECK ((key_id IS NULL) = (period IS NULL)),
  UNIQUE (key_id, period, type)
);
CREATE INDEX account_notice_of_organization ON account_notice (organization_id, created_at DESC);

-- Operators ------------------------------------------------------------------------------------

-- Operators, each with a key in addition to the deployment's ADMIN_API_KEY. `mac` is
-- HMAC-SHA256(pepper, key). A row stays when its key is revoked, because `admin_action` contains
-- the operator's name.
CREATE TABLE operator (
  id text PRIMARY KEY,
  name text NOT NULL,
  prefix text NOT NULL,
  mac bytea NOT NULL UNIQUE,
  created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  revoked_at timestamptz,
  last_used_at timestamptz
);
-- A name identifies one person in the record of actions.
CREATE UNIQUE INDEX operator_name ON operator (lower(name)) WHERE revoked_at IS NULL;

-- Actions of operators, recorded in the transaction of the change if the change is in this
-- database.
CREATE TABLE admin_action (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  action text NOT NULL,
  actor text NOT NULL,
  reason text NOT NULL,
  organization_id text REFERENCES organization,
  subject text NOT NULL,
  details jsonb NOT NULL,
  request_id text NOT NULL,
  -- A repeated grant has one effect.
  action_key text UNIQUE,
  created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX admin_action_of_organization ON admin_action (organization_id, id);

-- The last audit, one row: operators see its age and its number of findings.
CREATE TABLE last_audit (
  id boolean PRIMARY KEY DEFAULT true CHECK (id),
  findings integer NOT NULL,
  finished_at timestamptz NOT NULL
);

-- Paused providers: no new call is sent; results of sent calls are still collected.
CREATE TABLE provider_pause (
  provider text PRIMARY KEY,
  actor text NOT NULL,
  reason text NOT NULL,
  paused_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
