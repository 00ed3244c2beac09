-- All tables. Ids are texts with a prefix for the kind of record. Times are timestamptz values of
-- the database's clock. Amounts are bigint micro-credits (1 credit = 1,000,000 micro-credits).
-- Functions, views and triggers are in the folders of the code that uses them.

-- Indexes for searching parts of texts. Both extensions are part of Postgres, and a role that may
-- create tables in its own database may create them.
CREATE EXTENSION IF NOT EXISTS pg_trgm;
CREATE EXTENSION IF NOT EXISTS btree_gin;

-- Who calls ------------------------------------------------------------------------------------

CREATE TABLE organization (
  id text PRIMARY KEY,
  name text NOT NULL,
  status text NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'suspended')),
  -- Requests per minute of all its keys (access.sql). Null: ORGANIZATION_RATE_FACTOR times a key's.
  rate_limit integer CHECK (rate_limit > 0),
  -- Total bytes of the organization's uploads (storage/uploads.sql).
  upload_bytes bigint NOT NULL DEFAULT 0 CHECK (upload_bytes >= 0),
  created_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE app_user (
  id text PRIMARY KEY,
  organization_id text NOT NULL REFERENCES organization,
  name text NOT NULL,
  role text NOT NULL CHECK (role IN ('owner', 'admin', 'member', 'viewer')),
  created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX user_of_organization ON app_user (organization_id, id);

-- API keys. `mac` is HMAC-SHA256(pepper, key); the key itself is never stored.
CREATE TABLE api_key (
  id text PRIMARY KEY,
  organization_id text NOT NULL REFERENCES organization,
  user_id text NOT NULL REFERENCES app_user,
  name text NOT NULL,
  prefix text NOT NULL,
  mac bytea NOT NULL UNIQUE,
  scopes text[] NOT NULL,
  allowed_models text[],
  created_at timestamptz NOT NULL DEFAULT now(),
  expires_at timestamptz,
  revoked_at timestamptz,
  last_used_at timestamptz,
  -- Key that replaced this key in a rotation. A replaced key still works until it expires, but no
  -- longer counts toward the maximum number of keys.
  replaced_by text REFERENCES api_key,
  -- Key whose budget and limits this key uses; null if it has its own. It is the key that this key
  -- replaced, or the limited key that created this key. A budget is the number of credits that may
  -- be spent in a calendar period (UTC).
  budget_of text REFERENCES api_key,
  limit_micro bigint CHECK (limit_micro >= 0),
  limit_per text CHECK (limit_per IN ('day', 'week', 'month', 'total')),
  -- Requests per minute. Null: RATE_LIMIT_PER_MINUTE.
  rate_limit integer CHECK (rate_limit > 0),
  -- Studio jobs that may be open at the same time. Null: no limit.
  jobs_max integer CHECK (jobs_max > 0),
  CHECK ((limit_micro IS NULL) = (limit_per IS NULL)),
  -- Limits are stored only in the row of the key that owns the budget.
  CHECK (budget_of IS NULL OR coalesce(limit_micro, rate_limit, jobs_max) IS NULL)
);
CREATE INDEX api_key_of_user ON api_key (user_id) WHERE revoked_at IS NULL;
CREATE INDEX api_key_with_rate ON api_key (user_id) WHERE rate_limit IS NOT NULL;
CREATE INDEX api_key_of_organization ON api_key (organization_id);

-- Request counts for the rate limits, in windows of one minute. All API processes share them
-- (access.sql). The table is UNLOGGED: after a crash of Postgres, the requests of one minute are
-- not counted, but no request waits for a disk write.
CREATE UNLOGGED TABLE rate_window (
  -- Id of an API key, a user or an organization.
  owner_id text NOT NULL,
  bucket text NOT NULL,
  started_at timestamptz NOT NULL,
  hits integer NOT NULL,
  PRIMARY KEY (owner_id, bucket)
) WITH (fillfactor = 50);

-- Sessions of the console. A cookie contains the token of a session. The row is deleted when the
-- session ends.
CREATE TABLE console_session (
  id text PRIMARY KEY,
  -- SHA-256 hash of the session token.
  token_hash bytea NOT NULL UNIQUE,
  -- API key with whose rights the session acts; null for an operator key (`operator_mac`).
  key_id text REFERENCES api_key,
  operator_mac bytea,
  -- Name of the operator that is recorded with the operator's actions.
  name text,
  -- Browser and address of the sign-in, by which a user recognizes the session.
  user_agent text,
  address text,
  created_at timestamptz NOT NULL DEFAULT now(),
  expires_at timestamptz NOT NULL,
  CHECK ((key_id IS NULL) <> (operator_mac IS NULL))
);
CREATE INDEX console_session_of_key ON console_session (key_id);

-- One-time sign-in links to the console. They start a session for the key that created them.
CREATE TABLE sign_in_link (
  -- SHA-256 hash of the token in the link.
  token_hash bytea PRIMARY KEY,
  key_id text NOT NULL REFERENCES api_key,
  expires_at timestamptz NOT NULL
);

-- Claims of Idempotency-Keys. A claim is created before its job or chat (ledger/claims.sql).
CREATE TABLE idempotency_claim (
  -- An organization, or `operator:<id>` for requests of operators.
  organization_id text NOT NULL,
  idempotency_key text NOT NULL,
  fingerprint text NOT NULL,
  -- Id of the job, chat, file, API key or other record that the request creates.
  subject_id text NOT NULL,
  -- Id of the request that holds the claim. A request that takes over the claim stores its own id,
  -- so that late statements of the former holder change nothing.
  holder text,
  -- `held`: no workflow start has been sent. `started`: a workflow start was sent, and may arrive
  -- at any time. `done`: the job, chat or other record exists.
  state text NOT NULL DEFAULT 'held' CHECK (state IN ('held', 'started', 'done')),
  -- Time after which another request may take over the claim. The holder regularly extends it.
  held_until timestamptz NOT NULL DEFAULT now() + interval '10 seconds',
  -- Stored response body of a request that creates no job, such as a chat's answer or stream. The
  -- answers of other endpoints are encrypted, because they may contain secrets.
  -- It is not compressed, so that it can be read in pieces.
  answer bytea STORAGE EXTERNAL,
  answer_headers jsonb,
  created_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (organization_id, idempotency_key)
);
CREATE INDEX idempotency_claim_age ON idempotency_claim (created_at);

-- Ledger ---------------------------------------------------------------------------------------

-- These checks belong to domains. Postgres parses the CHECKs of a table again for every statement
-- that writes the table, which would take a fifth of the time of a ledger operation.
CREATE DOMAIN micro AS bigint CHECK (VALUE >= 0);
CREATE DOMAIN reservation_kind AS text CHECK (VALUE IN ('studio', 'chat'));
CREATE DOMAIN reservation_state AS text CHECK (VALUE IN ('reserved', 'charged', 'released'));
CREATE DOMAIN entry_kind AS text
  CHECK (VALUE IN ('grant', 'reserve', 'charge', 'release', 'refund'));
CREATE DOMAIN chat_counter AS text CHECK (VALUE IN ('provider', 'gateway'));

CREATE TABLE account (
  organization_id text PRIMARY KEY REFERENCES organization,
  -- Negative if more was delivered than was reserved; `ledger_entry` has the CHECK.
  posted bigint NOT NULL DEFAULT 0,
  reserved micro NOT NULL DEFAULT 0,
  window_started_at timestamptz,
  window_used micro NOT NULL DEFAULT 0,
  window_limit micro,
  -- Studio jobs that may be open at the same time. Null: no limit.
  jobs_max integer CHECK (jobs_max > 0),
  sequence bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);

CREATE TABLE reservation (
  id text PRIMARY KEY,
  organization_id text NOT NULL REFERENCES account,
  kind reservation_kind NOT NULL,
  amount micro NOT NULL,
  charged micro,
  -- Part of `charged` that operators refunded. Null if nothing was refunded.
  refunded micro,
  state reservation_state NOT NULL DEFAULT 'reserved',
  reason text,
  window_started_at timestamptz,
  -- Time of the sweeper's next check whether the workflow of the reservation still exists.
  expires_at timestamptz NOT NULL,
  -- Time at which the sweeper first found that the reservation has no running workflow. For a chat:
  -- that the reservation has expired.
  owner_missing_at timestamptz,
  created_at timestamptz NOT NULL,
  settled_at timestamptz,
  -- Key whose budget counts the reservation.
  budget_id text,
  -- Columns of a chat and its progress. A chat has no workflow, so the sweeper settles it by its
  -- last checkpoint if the API crashes. The columns are null for Studio jobs, which have their own
  -- table.
  key_id text REFERENCES api_key,
  model text,
  provider text,
  streamed boolean,
  request_id text,
  metadata jsonb,
  -- Tokens of the last checkpoint; once the chat is settled, the tokens it was charged for.
  input_tokens bigint,
  output_tokens bigint,
  -- Input tokens read from and written to the prompt cache, and reasoning tokens of the output.
  cached_input_tokens bigint,
  cache_write_tokens bigint,
  reasoning_tokens bigint,
  -- Source of the charged token counts: the provider's report, or the gateway's own count. Null
  -- while the chat runs, and if its credits were released.
  counted_by chat_counter,
  -- Price of the tokens that had been used at the last checkpoint.
  checkpoint_micro micro,
  -- A charge may exceed its reservation, because a provider may count more tokens of a chat, or more
  -- seconds of a recording (ledger-decisions.sql).
  CHECK ((state = 'reserved') = (settled_at IS NULL) AND (state = 'charged') = (charged IS NOT NULL)
    AND (kind = 'chat') = (key_id IS NOT NULL)
    AND coalesce(refunded, 0) <= coalesce(charged, 0))
) WITH (fillfactor = 80);
CREATE INDEX reservation_open ON reservation (expires_at) WHERE state = 'reserved';
-- Open jobs of an organization, or of a key and those that share its limits.
CREATE INDEX studio_open ON reservation (organization_id, budget_id)
  WHERE state = 'reserved' AND kind = 'studio';
CREATE INDEX chat_of_organization ON reservation (organization_id, created_at DESC, id DESC)
  WHERE kind = 'chat';
-- Jobs of a six-hour window, which the audit sums up.
CREATE INDEX studio_of_window ON reservation (organization_id, window_started_at) WHERE kind = 'studio';
CREATE INDEX chat_of_key ON reservation (key_id, created_at DESC, id DESC) WHERE kind = 'chat';

-- Ledger entries, which are never changed. The charge and the release of a reservation have the
-- same idempotency key, so only one of them can be inserted.
CREATE TABLE ledger_entry (
  organization_id text NOT NULL REFERENCES account,
  sequence bigint NOT NULL,
  idempotency_key text NOT NULL,
  kind entry_kind NOT NULL,
  -- Without a foreign key, which would slow the removal of archived reservations; the audit checks it.
  reservation_id text,
  posted_change bigint NOT NULL,
  reserved_change bigint NOT NULL,
  posted_after bigint NOT NULL,
  reserved_after bigint NOT NULL,
  actor text,
  reason text,
  created_at timestamptz NOT NULL,
  PRIMARY KEY (organization_id, sequence),
  -- The key, which contains the reservation id, comes first: the audit reads the entries of many successive
  -- reservations as one range of this index.
  UNIQUE (idempotency_key, organization_id),
  -- Only a charge may lower the available credits below zero.
  CHECK (reserved_after <= posted_after OR reserved_change <= posted_change OR kind = 'charge')
);
CREATE INDEX ledger_refund ON ledger_entry (reservation_id) WHERE kind = 'refund';

-- Micro-credits of each budget that are reserved or charged, by the UTC day on which the job or
-- chat began. Keys without a limit also have rows, so that a limit that is set later counts the
-- whole period.
CREATE TABLE budget_spend (
  budget_id text NOT NULL,
  day date NOT NULL,
  spent bigint NOT NULL,
  PRIMARY KEY (budget_id, day)
) WITH (fillfactor = 50);

CREATE INDEX budget_spend_by_day ON budget_spend (day);

-- UTC days of organizations that were summed up in `usage_day` (usage-days.sql). `stale`: the sums
-- are not those of the rows. `has_metadata`: the sums are also split by metadata.
CREATE TABLE usage_closed_day (
  organization_id text NOT NULL REFERENCES account,
  day date NOT NULL,
  stale boolean NOT NULL,
  has_metadata boolean NOT NULL,
  PRIMARY KEY (organization_id, day)
);
CREATE INDEX usage_stale_day ON usage_closed_day (day) WHERE stale;

-- Sums of the jobs and chats that began on a closed day. `net` is micro-credits charged, less refunds.
CREATE TABLE usage_day (
  organization_id text NOT NULL REFERENCES account,
  day date NOT NULL,
  -- `chat`, or the type of the Studio job.
  type text NOT NULL,
  model text,
  key_id text NOT NULL,
  status text NOT NULL,
  metadata jsonb,
  requests bigint NOT NULL,
  net bigint NOT NULL,
  input_tokens bigint NOT NULL,
  output_tokens bigint NOT NULL,
  -- True for the sums of archived jobs and chats, which have no rows any more.
  archived boolean NOT NULL DEFAULT false
);
CREATE INDEX usage_of_organization ON usage_day (organization_id, day);

-- Limits because of which a request was rejected, by UTC day. Such a limit counts as reached, even
-- if it is not completely used.
CREATE TABLE budget_rejection (
  budget_id text NOT NULL,
  limit_micro bigint NOT NULL,
  day date NOT NULL,
  PRIMARY KEY (budget_id, limit_micro, day)
);

-- Segments of ledger entries that are archived with their jobs and chats (archive.sql). The entries
-- that remain begin behind the last segment of their account, with its totals.
CREATE TABLE archive_segment (
  organization_id text NOT NULL REFERENCES account,
  -- Last entry, and the totals of the account after it.
  sequence bigint NOT NULL,
  first_sequence bigint NOT NULL,
  posted bigint NOT NULL,
  reserved micro NOT NULL,
  -- Number of removed reservations, and the sums of their charges, also less refunds.
  reservations integer NOT NULL,
  charged bigint NOT NULL,
  net bigint NOT NULL,
  storage_key text NOT NULL,
  -- SHA-256 hash of the object.
  sha256 text NOT NULL,
  archived_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (organization_id, sequence)
);

-- Ids of archived jobs and chats, without their prefix, and the segments that contain them.
CREATE TABLE archived_id (
  id uuid PRIMARY KEY,
  organization_id text NOT NULL,
  sequence bigint NOT NULL
);

-- Part of `budget_spend` that belongs to archived jobs and chats.
CREATE TABLE archived_spend (
  budget_id text NOT NULL,
  day date NOT NULL,
  spent bigint NOT NULL,
  PRIMARY KEY (budget_id, day)
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
  -- Plan without its request, from which `resettle` can start the workflow; null after the end.
  plan jsonb,
  -- Steps of a pipeline with the indexes of their calls; null for other jobs.
  steps jsonb,
  outputs jsonb,
  error jsonb,
  -- Code of the first error of the ended job or of its calls that leaves a provider's outcome unknown.
  unknown_outcome text,
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
-- These indexes cover columns that a charge does not change, so that it stays a heap-only update.
CREATE INDEX job_of_type ON job (organization_id, type, created_at DESC, id DESC);
CREATE INDEX job_of_model ON job (organization_id, model, created_at DESC, id DESC);
CREATE INDEX job_undelivered ON job (organization_id, created_at DESC, id DESC) WHERE error IS NOT NULL;
CREATE INDEX job_canceled ON job (organization_id, created_at DESC, id DESC) WHERE error->>'code' = 'CANCELED';
-- `job_of_text` and `job_of_id_ending` are for searches (studio/jobs/job-reads.ts). The short list
-- of pending entries keeps the pause short in which an insert moves them to the index.
CREATE INDEX job_of_text ON job USING gin (organization_id, date_trunc('month', created_at AT TIME ZONE 'UTC'),
  lower(coalesce(request->>'prompt', '') || ' ' || coalesce(request->>'text', '') || ' '
    || coalesce(request->>'title', '') || ' ' || coalesce(request->>'inputs', '')) gin_trgm_ops)
  WITH (gin_pending_list_limit = 256);
CREATE INDEX job_of_id_ending ON job (reverse(id) text_pattern_ops);
CREATE INDEX job_without_outcome ON job (id) WHERE unknown_outcome IS NOT NULL;

-- Provider calls of jobs. The row of a call is inserted before the call is sent. `begun`: the call
-- may have reached the provider, so it is never sent again. `waiting`: the call was not sent,
-- because its provider is paused.
CREATE TABLE provider_call (
  job_id text NOT NULL REFERENCES job,
  call_index integer NOT NULL,
  route_index integer NOT NULL,
  provider text NOT NULL,
  -- Provider's endpoint, needed to find a call if only the provider's request id is known.
  provider_endpoint text,
  -- Request id that the provider assigned to the last attempt of the call.
  provider_request_id text,
  -- Provider's own type or code of the error with which the last attempt failed, for operators.
  provider_error_type text CHECK (length(provider_error_type) <= 100),
  state text NOT NULL
    CHECK (state IN ('waiting', 'begun', 'not_accepted', 'accepted', 'answered', 'unknown')),
  operation jsonb,
  outputs jsonb,
  progress jsonb,
  -- Id of the activity attempt that began the call most recently.
  sender_id text,
  begun_at timestamptz NOT NULL DEFAULT now(),
  updated_at timestamptz NOT NULL DEFAULT now(),
  -- Shown by the steps of a job: the times at which the provider accepted the call and at which its
  -- outputs were complete, and how often the call was sent.
  accepted_at timestamptz,
  answered_at timestamptz,
  attempts integer NOT NULL DEFAULT 1,
  -- Time at which the call first waited for a paused provider.
  paused_at timestamptz,
  -- Attempts that a provider did not accept, oldest first: {routeIndex, provider,
  -- providerRequestId, providerErrorType, message, failedAtMs}.
  unaccepted_submits jsonb NOT NULL DEFAULT '[]',
  PRIMARY KEY (job_id, call_index)
) WITH (fillfactor = 70);
CREATE INDEX provider_call_of_request ON provider_call (provider_request_id)
  WHERE provider_request_id IS NOT NULL;

CREATE TABLE artifact (
  storage_key text PRIMARY KEY,
  -- Without a foreign key: the media of archived jobs remain.
  job_id text NOT NULL,
  organization_id text NOT NULL,
  content_type text NOT NULL,
  size_bytes bigint NOT NULL CHECK (size_bytes > 0),
  sha256 text NOT NULL,
  -- Mark of generated media in the file.
  content_credentials text NOT NULL DEFAULT 'none' CHECK (content_credentials IN ('provider', 'gateway', 'none')),
  created_at timestamptz NOT NULL DEFAULT now(),
  -- `deleted_at`: time at which the owner deleted the artifact. `removed_at`: time at which its
  -- object was removed from the storage. The row remains for the audit.
  deleted_at timestamptz,
  removed_at timestamptz,
  -- Time at which the storage was last asked to remove the object.
  removal_tried_at timestamptz
);
CREATE INDEX artifact_of_job ON artifact (job_id);
CREATE INDEX artifact_to_remove ON artifact (removal_tried_at NULLS FIRST) WHERE deleted_at IS NOT NULL AND removed_at IS NULL;
CREATE INDEX artifact_of_organization ON artifact (organization_id, created_at DESC, storage_key DESC);

-- Provider notifications with a valid signature. `received`: the workflow has not been signaled
-- yet; it is signaled when the provider sends the notification again.
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

-- Index of jobs and chats by `metadata`: one row for each pair (metadata.sql). The table has no
-- foreign keys: a job or chat is only removed together with its pairs (ledger/archive.sql).
CREATE TABLE metadata_pair (
  organization_id text NOT NULL,
  name text NOT NULL,
  value text NOT NULL,
  -- Creation time of the job or chat.
  created_at timestamptz NOT NULL,
  id text NOT NULL,
  PRIMARY KEY (organization_id, name, value, created_at, id)
);

-- Files of callers -----------------------------------------------------------------------------

-- Files that callers upload as inputs. A row is created together with its signed URL.
-- `completed_at` is set when the storage contains the object with the agreed size and type.
CREATE TABLE upload (
  id text PRIMARY KEY,
  organization_id text NOT NULL REFERENCES organization,
  key_id text NOT NULL REFERENCES api_key,
  storage_key text NOT NULL UNIQUE,
  -- Media type; null until the object exists if the caller named neither type nor file name.
  content_type text,
  -- Size in bytes. Null until the object exists if the caller specified no size.
  size_bytes bigint CHECK (size_bytes > 0),
  -- Maximum size of the file that the signed URL allows, in bytes.
  bytes_max bigint CHECK (bytes_max > 0),
  -- SHA-256 hash of the file. Null if the file was sent directly to the S3 storage.
  sha256 text,
  filename text,
  purpose text,
  created_at timestamptz NOT NULL DEFAULT now(),
  -- Time at which the signed URL expires.
  expires_at timestamptz NOT NULL,
  completed_at timestamptz,
  -- Time at which a request most recently used the file as an input.
  used_at timestamptz,
  -- Time until which only one request may send the file; that request extends it regularly.
  receiving_until timestamptz,
  -- Time at which the owner deleted the file. A deleted file no longer counts toward the quota. Its
  -- row is deleted when its signed URL can no longer receive a file.
  deleted_at timestamptz,
  -- Time at which a sweep last handled the upload.
  swept_at timestamptz,
  -- Bytes that count toward the quota: the size, or the maximum size until the object exists.
  counted_bytes bigint NOT NULL GENERATED ALWAYS AS (
    CASE WHEN completed_at IS NULL THEN coalesce(bytes_max, size_bytes, 0) ELSE size_bytes END
  ) STORED,
  CHECK (completed_at IS NULL OR (content_type IS NOT NULL AND size_bytes IS NOT NULL))
);
CREATE INDEX upload_of_organization ON upload (organization_id, created_at DESC);
CREATE INDEX upload_incomplete ON upload (expires_at) WHERE completed_at IS NULL;
CREATE INDEX upload_last_used ON upload (coalesce(used_at, completed_at))
  WHERE completed_at IS NOT NULL;

-- Copies of inputs from foreign URLs. A copy is recorded before its object is stored, so that no
-- object is forgotten. Copies are removed when their request is rejected or their job is settled.
CREATE TABLE input_copy (
  storage_key text PRIMARY KEY,
  organization_id text NOT NULL REFERENCES organization,
  -- Id of the job that the request creates; a rejected request has no such job.
  job_id text NOT NULL,
  -- Bytes that count toward the quota of the organization.
  size_bytes bigint NOT NULL CHECK (size_bytes > 0),
  created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  -- Time at which the storage was last asked to remove the object.
  removal_tried_at timestamptz
);
CREATE INDEX input_copy_by_age ON input_copy (created_at);

-- Webhooks of callers --------------------------------------------------------------------------

-- Caller webhooks. The row is created before the job is admitted, so that no accepted job lacks it.
-- It is deleted if the job is rejected.
CREATE TABLE webhook (
  -- Id of the reported job or account notice. For the start of a job, the id begins with `start_`.
  subject_id text PRIMARY KEY,
  -- Job whose start or end is reported; null for an account notice.
  job_id text GENERATED ALWAYS AS (CASE WHEN starts_with(subject_id, 'start_')
    THEN 'job_' || substr(subject_id, 7) WHEN starts_with(subject_id, 'job_') THEN subject_id END) STORED,
  organization_id text NOT NULL REFERENCES organization,
  url text NOT NULL,
  -- Events that are sent: `started`, or the statuses with which a job ends.
  events text[] NOT NULL DEFAULT '{completed,failed,canceled}',
  state text NOT NULL DEFAULT 'waiting'
    CHECK (state IN ('waiting', 'delivering', 'delivered', 'gone', 'failed')),
  attempts integer NOT NULL DEFAULT 0,
  -- Number of attempts before the last redelivery, which starts the retry delays again.
  attempts_before integer NOT NULL DEFAULT 0,
  -- Time of the next attempt. Null if no further attempt is planned.
  next_attempt_at timestamptz,
  -- Time after which the workflow that delivers the webhook counts as lost.
  overdue_at timestamptz,
  created_at timestamptz NOT NULL DEFAULT now(),
  updated_at timestamptz NOT NULL DEFAULT now()
) WITH (fillfactor = 80);
CREATE INDEX webhook_open ON webhook (created_at) WHERE state IN ('waiting', 'delivering');
CREATE INDEX webhook_of_organization ON webhook (organization_id, job_id DESC, subject_id DESC);
CREATE INDEX webhook_of_job ON webhook (job_id DESC, subject_id DESC);

-- Attempts to deliver a webhook. The row of an attempt is created before the request is sent. An
-- attempt whose end was not recorded stays in the state `sending`.
CREATE TABLE webhook_attempt (
  subject_id text NOT NULL REFERENCES webhook ON DELETE CASCADE,
  number integer NOT NULL,
  outcome text NOT NULL DEFAULT 'sending'
    CHECK (outcome IN ('sending', 'delivered', 'gone', 'failed')),
  status integer,
  -- Reason why the attempt has no HTTP status.
  error text,
  -- Start of the receiver's response.
  response text,
  duration_ms integer,
  started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (subject_id, number)
) WITH (fillfactor = 80);
CREATE INDEX webhook_attempt_by_time ON webhook_attempt (started_at);

-- Generations of webhook secrets. The secrets themselves are derived, never stored. Webhooks of an
-- organization without a row are signed with generation 1.
CREATE TABLE webhook_secret (
  organization_id text NOT NULL REFERENCES organization,
  generation integer NOT NULL CHECK (generation > 0),
  created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  -- Time until which a replaced secret also signs webhooks; null for the newest secret.
  retires_at timestamptz,
  PRIMARY KEY (organization_id, generation)
);
CREATE UNIQUE INDEX webhook_secret_in_use ON webhook_secret (organization_id) WHERE retires_at IS NULL;

-- Account notices ------------------------------------------------------------------------------

-- Settings of an organization's account notices (webhooks/notices.sql).
CREATE TABLE account_notice_target (
  organization_id text PRIMARY KEY REFERENCES organization,
  -- URL to which account notices are sent. Null if none are sent.
  url text,
  low_balance_micro bigint CHECK (low_balance_micro >= 0),
  -- True if the balance is low and a notice has reported this.
  balance_is_low boolean NOT NULL DEFAULT false
);

-- Account notices, which are never changed. The row of `webhook` with the same id contains the
-- state of the delivery.
CREATE TABLE account_notice (
  id text PRIMARY KEY,
  organization_id text NOT NULL REFERENCES organization,
  type text NOT NULL CHECK (type IN ('account.balance.low', 'key.limit.near', 'key.limit.reached')),
  -- Content of the notice. Amounts are in micro-credits.
  body jsonb NOT NULL,
  -- Key and limit with its calendar period; each type of notice is sent once per limit and period.
  key_id text REFERENCES api_key,
  period text,
  created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  CHECK ((type = 'account.balance.low') = (key_id IS NULL)),
  CHECK ((key_id IS NULL) = (period IS NULL)),
  UNIQUE (key_id, period, type)
);
CREATE INDEX account_notice_of_organization ON account_notice (organization_id, created_at DESC);

-- Bulk jobs ------------------------------------------------------------------------------------

-- Bulk jobs: lists of Studio requests, whose jobs one workflow starts and counts (studio/bulk/).
-- `receiving`: the items are still arriving, and no other request sees the bulk job.
CREATE TABLE bulk (
  id text PRIMARY KEY,
  organization_id text NOT NULL REFERENCES organization,
  key_id text NOT NULL REFERENCES api_key,
  request_id text NOT NULL,
  status text NOT NULL DEFAULT 'receiving'
    CHECK (status IN ('receiving', 'in_progress', 'paused', 'completed', 'stopped', 'canceled')),
  -- Reason for `paused` or `stopped`.
  stop_reason text,
  -- Time at which a paused bulk job is expected to go on; null if it is unknown.
  resume_at timestamptz,
  -- Time at which it was paused for this reason; null if it is not paused.
  paused_at timestamptz,
  concurrency integer NOT NULL CHECK (concurrency > 0),
  max_credits bigint CHECK (max_credits > 0),
  max_failed_percent float8 CHECK (max_failed_percent BETWEEN 0 AND 100),
  metadata jsonb,
  webhook_url text,
  webhook_events text[] NOT NULL DEFAULT '{}',
  -- Numbers of items by state, changed in the transaction that changes the items.
  total integer NOT NULL DEFAULT 0,
  waiting integer NOT NULL DEFAULT 0 CHECK (waiting >= 0),
  running integer NOT NULL DEFAULT 0 CHECK (running >= 0),
  completed integer NOT NULL DEFAULT 0 CHECK (completed >= 0),
  failed integer NOT NULL DEFAULT 0 CHECK (failed >= 0),
  canceled integer NOT NULL DEFAULT 0 CHECK (canceled >= 0),
  -- Items that were not accepted, because of `skipInvalid`.
  invalid integer NOT NULL DEFAULT 0,
  invalid_items jsonb NOT NULL DEFAULT '[]',
  -- Prices of all items when they were accepted, and of the waiting, running and ended ones.
  estimated micro NOT NULL DEFAULT 0,
  waiting_price micro NOT NULL DEFAULT 0,
  reserved micro NOT NULL DEFAULT 0,
  ended_price micro NOT NULL DEFAULT 0,
  charged micro NOT NULL DEFAULT 0,
  -- Greatest number of an end of an item; also of ends before a retry.
  last_end bigint NOT NULL DEFAULT 0,
  -- True if running jobs are canceled too.
  cancels_running boolean NOT NULL DEFAULT false,
  -- Time of a change of which the workflow may not know yet; null if it was signaled.
  unsignaled_since timestamptz,
  -- Times of the sweeper's last check whether the workflow exists, and at which it was first missing.
  checked_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  missing_at timestamptz,
  created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  -- Time at which the last job ended and none follows.
  completed_at timestamptz,
  CHECK (total = waiting + running + completed + failed + canceled)
) WITH (fillfactor = 70);
CREATE INDEX bulk_of_organization ON bulk (organization_id, created_at DESC, id DESC);
CREATE INDEX bulk_open ON bulk (checked_at) WHERE completed_at IS NULL;

-- Items of bulk jobs. `job_id` is set when the item is started, and kept until the item is retried,
-- so that a repeated start is the same job.
CREATE TABLE bulk_item (
  bulk_id text NOT NULL REFERENCES bulk ON DELETE CASCADE,
  index integer NOT NULL,
  -- Id that the caller chose.
  item_id text,
  -- Job type of the capability.
  type text NOT NULL,
  request jsonb NOT NULL,
  -- Webhook and metadata of the item's own job.
  webhook jsonb,
  metadata jsonb,
  -- Maximum charge of the item, measured when it was accepted and again when it is started.
  price micro NOT NULL,
  state text NOT NULL DEFAULT 'waiting'
    CHECK (state IN ('waiting', 'running', 'completed', 'failed', 'canceled')),
  -- Number of times that the waiting item could not be planned for a temporary reason, which is in
  -- `error`. Items that were postponed less often go first.
  postponed integer NOT NULL DEFAULT 0,
  -- Number of the attempt, from 1; `retry` starts the next one.
  round integer NOT NULL DEFAULT 1,
  job_id text,
  charged micro NOT NULL DEFAULT 0,
  error jsonb,
  claimed_at timestamptz,
  ended_at timestamptz,
  -- Place of the end among the ends of the bulk job, with gaps; results are read in this order.
  end_number bigint,
  PRIMARY KEY (bulk_id, index)
) WITH (fillfactor = 70);
CREATE INDEX bulk_item_by_state ON bulk_item (bulk_id, state, index);
CREATE INDEX bulk_item_waiting ON bulk_item (bulk_id, postponed, index) WHERE state = 'waiting';
CREATE INDEX bulk_item_by_end ON bulk_item (bulk_id, end_number) WHERE end_number IS NOT NULL;
CREATE INDEX bulk_item_of_job ON bulk_item (job_id) WHERE job_id IS NOT NULL;

-- Events of bulk jobs that webhooks report. The row of `webhook` with the same id contains the state
-- of the delivery.
CREATE TABLE bulk_event (
  id text PRIMARY KEY,
  bulk_id text NOT NULL REFERENCES bulk,
  type text NOT NULL CHECK (type IN ('paused', 'completed', 'stopped', 'canceled')),
  stop_reason text,
  created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- Operators ------------------------------------------------------------------------------------

-- Operators. Each has a key of its own, in addition to the deployment's ADMIN_API_KEY. `mac` is
-- HMAC-SHA256(pepper, key). The row remains when the key is revoked, because `admin_action`
-- contains the operator's name.
CREATE TABLE operator (
  id text PRIMARY KEY,
  name text NOT NULL,
  prefix text NOT NULL,
  mac bytea NOT NULL UNIQUE,
  created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  revoked_at timestamptz,
  last_used_at timestamptz
);
-- Ensures that a name identifies only one operator at the time of an action.
CREATE UNIQUE INDEX operator_name ON operator (lower(name)) WHERE revoked_at IS NULL;

-- Actions of operators. An action that changes this database is recorded in the same transaction as
-- the change.
CREATE TABLE admin_action (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  action text NOT NULL,
  actor text NOT NULL,
  reason text NOT NULL,
  organization_id text REFERENCES organization,
  subject text NOT NULL,
  details jsonb NOT NULL,
  request_id text NOT NULL,
  -- Key that prevents a repeated grant of credits from having a second effect.
  action_key text UNIQUE,
  created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX admin_action_of_organization ON admin_action (organization_id, id);

-- Actions of operators on many jobs. A workflow with the same id performs them, and records an
-- `admin_action` for each job.
CREATE TABLE bulk_action (
  id text PRIMARY KEY,
  action text NOT NULL CHECK (action IN ('cancel', 'reverify', 'resettle', 'redeliver', 'refund')),
  -- Filter and options of the request.
  request jsonb NOT NULL,
  -- Operator and Idempotency-Key of the request; null if it has no key.
  request_key text UNIQUE,
  actor text NOT NULL,
  reason text NOT NULL,
  request_id text NOT NULL,
  status text NOT NULL DEFAULT 'running' CHECK (status IN ('running', 'completed', 'canceled')),
  created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  completed_at timestamptz,
  CHECK ((status = 'running') = (completed_at IS NULL))
);
CREATE INDEX bulk_action_open ON bulk_action (id) WHERE completed_at IS NULL;

-- Jobs of bulk actions, chosen when the bulk action started. `rejected`: the action was not possible.
CREATE TABLE bulk_action_job (
  bulk_action_id text NOT NULL REFERENCES bulk_action,
  job_id text NOT NULL,
  -- Reserved credits of the job, or its charged credits that were not refunded.
  credits micro NOT NULL,
  state text NOT NULL DEFAULT 'waiting' CHECK (state IN ('waiting', 'done', 'rejected')),
  error jsonb,
  PRIMARY KEY (bulk_action_id, job_id),
  CHECK ((state = 'rejected') = (error IS NOT NULL))
);
CREATE INDEX bulk_action_job_open ON bulk_action_job (bulk_action_id, job_id) WHERE state = 'waiting';

-- Results of the last audits: of the changes since the audit before, and of all rows.
CREATE TABLE last_audit (
  scope text PRIMARY KEY CHECK (scope IN ('changes', 'all')),
  -- Numbers of checked ledger entries and reservations, and of violations.
  entries bigint NOT NULL DEFAULT 0,
  reservations bigint NOT NULL DEFAULT 0,
  findings integer NOT NULL DEFAULT 0,
  -- Time at which the newest audit began, so that only one worker runs the daily audit of all rows.
  started_at timestamptz NOT NULL,
  -- Time at which the audit with these results ended; null if none has ended.
  finished_at timestamptz
);

-- Last ledger entry of each account up to which an audit found no violation, with its totals. The
-- audit of the changes begins behind it.
CREATE TABLE audit_checkpoint (
  organization_id text PRIMARY KEY REFERENCES account,
  sequence bigint NOT NULL,
  posted bigint NOT NULL,
  reserved bigint NOT NULL,
  audited_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- Paused providers. They receive no new calls, but results of earlier calls are still collected.
CREATE TABLE provider_pause (
  provider text PRIMARY KEY,
  actor text NOT NULL,
  reason text NOT NULL,
  paused_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
