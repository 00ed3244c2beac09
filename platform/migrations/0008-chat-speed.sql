-- Chat without a round trip per request: admissions in advance, and leased budgets.

-- Admissions in advance ------------------------------------------------------------------------

-- {mac (hex), bucket, limit, count, spare?, left?} → null for a key that does not admit, else who calls
-- and how often. `spare` asks for further admissions of this minute, to be used within `validMs`: with
-- those that are `left` from before, at most a 64th of what the limit leaves. So a small limit is
-- counted one by one, and a process that stops asking wastes next to nothing.
CREATE OR REPLACE FUNCTION admit_request(request jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  k record; at timestamptz := clock_timestamp(); counted integer; granted integer;
  minute bigint := floor(extract(epoch FROM at) / 60);
  own integer := (request->>'count')::integer;
  spare integer := coalesce((request->>'spare')::integer, 0);
BEGIN
  SELECT a.id, a.organization_id, a.member_id, a.scopes, a.allowed_models, a.last_used_at,
      a.expires_at, m.role, o.status AS organization_status
    INTO k
    FROM api_key a JOIN member m ON m.id = a.member_id JOIN organization o ON o.id = a.organization_id
    WHERE a.mac = decode(request->>'mac', 'hex') AND a.revoked_at IS NULL
      AND (a.expires_at IS NULL OR a.expires_at > at);
  IF NOT FOUND THEN RETURN NULL; END IF;
  INSERT INTO rate_window AS w (key_id, bucket, window_start, hits)
    VALUES (k.id, request->>'bucket', minute, own)
    ON CONFLICT (key_id, bucket) DO UPDATE
      SET hits = CASE WHEN w.window_start = minute THEN w.hits + own ELSE own END,
        window_start = minute
    RETURNING hits INTO counted;
  granted := greatest(0, least(spare, ((request->>'limit')::bigint - counted) / 64
    - coalesce((request->>'left')::integer, 0)));
  IF granted > 0 THEN
    UPDATE rate_window SET hits = hits + granted WHERE key_id = k.id AND bucket = request->>'bucket';
  END IF;
  IF k.last_used_at IS NULL OR k.last_used_at < at - interval '1 minute' THEN
    UPDATE api_key SET last_used_at = at WHERE id = k.id;
  END IF;
  RETURN jsonb_build_object('keyId', k.id, 'organizationId', k.organization_id,
    'memberId', k.member_id, 'role', k.role, 'scopes', to_jsonb(k.scopes),
    'allowedModels', to_jsonb(k.allowed_models), 'organizationStatus', k.organization_status,
    'hits', counted, 'resetAtSeconds', (minute + 1) * 60,
    'nowMs', floor(extract(epoch FROM at) * 1000), 'spare', granted,
    'validMs', least(500, floor(extract(epoch FROM k.expires_at - at) * 1000)));
END $$;

-- Leased budgets -------------------------------------------------------------------------------

-- A lease is a reservation that an API process draws chats from without asking: its `amount` is what
-- is held now. Every sync books the chats that ended, in one ledger entry, and sets what is held on.
ALTER TABLE reservation DROP CONSTRAINT reservation_kind_check;
ALTER TABLE reservation ADD CONSTRAINT reservation_kind_check
  CHECK (kind IN ('studio', 'chat', 'lease'));
CREATE INDEX reservation_open_lease ON reservation (organization_id)
  WHERE kind = 'lease' AND state = 'reserved';

-- Chats that were paid from a lease: written when they have ended, and every few seconds before.
-- No foreign keys: rows come in by the thousand per second, with ids that this database gave out for
-- organizations, keys and leases, none of which is ever deleted.
CREATE TABLE leased_chat (
  id text PRIMARY KEY,
  lease_id text NOT NULL,
  organization_id text NOT NULL,
  key_id text NOT NULL,
  model text NOT NULL,
  provider text NOT NULL,
  streamed boolean NOT NULL,
  request_id text NOT NULL,
  -- `reserved`: a checkpoint of a chat that runs.
  state text NOT NULL CHECK (state IN ('reserved', 'charged', 'released')),
  -- What the chat costs; of one that runs, the price of what had been delivered at the checkpoint.
  amount bigint NOT NULL CHECK (amount >= 0),
  reason text,
  input_tokens bigint NOT NULL CHECK (input_tokens >= 0),
  output_tokens bigint NOT NULL CHECK (output_tokens >= 0),
  counted_by text CHECK (counted_by IN ('provider', 'gateway')),
  created_at timestamptz NOT NULL,
  CHECK (state <> 'released' OR amount = 0)
) WITH (fillfactor = 90);
CREATE INDEX leased_chat_of_organization ON leased_chat (organization_id, created_at DESC, id DESC);
CREATE INDEX leased_chat_of_key ON leased_chat (key_id, created_at DESC, id DESC);
CREATE INDEX leased_chat_running ON leased_chat (lease_id) WHERE state = 'reserved';

-- Moves an open lease under the account's lock: books what was spent, then holds `held`. A lease that
-- holds nothing any more ends.
CREATE FUNCTION chat_lease_move(a account, r reservation, spent bigint, held bigint, because text)
RETURNS account LANGUAGE plpgsql AS $$
DECLARE
  at timestamptz := clock_timestamp(); entry_key text := 'lease:' || r.id || ':' || (a.sequence + 1);
  closing boolean := held = 0;
  change bigint := CASE WHEN closing THEN -spent ELSE held - r.amount END;
BEGIN
  IF spent <> 0 OR change <> 0 THEN
    a := ledger_post(a, entry_key,
      CASE WHEN spent > 0 THEN 'charge' WHEN change > 0 THEN 'reserve' ELSE 'release' END,
      r.id, -spent, change, NULL, because, at);
  END IF;
  IF closing THEN
    a := ledger_post(a, 'settle:' || r.id, 'release', r.id, 0, spent - r.amount, NULL, because, at);
    UPDATE reservation SET state = 'released', amount = r.amount - spent, reason = because,
      settled_at = at WHERE id = r.id;
  ELSIF change <> 0 THEN
    UPDATE reservation SET amount = held WHERE id = r.id;
  END IF;
  RETURN a;
END $$;

-- {organizationId, id, hold, ttlMs, chats: [{id, keyId, model, provider, streamed, requestId, state,
-- amount, reason, input, output, countedBy, ageMs}]}
-- Books the chats and holds `hold` from then on, if a quarter of the balance is as much: what is left
-- stays free for reservations of other processes. Zero ends the lease. Repeating a sync changes nothing.
CREATE FUNCTION chat_lease_sync(move jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  a account; r reservation; at timestamptz; spent bigint; left_over bigint; held bigint;
  ttl interval := (move->>'ttlMs')::bigint * interval '1 millisecond';
BEGIN
  SELECT * INTO a FROM account WHERE organization_id = move->>'organizationId' FOR UPDATE;
  IF NOT FOUND THEN RETURN jsonb_build_object('verdict', 'no_account'); END IF;
  at := clock_timestamp();
  SELECT * INTO r FROM reservation WHERE id = move->>'id';
  IF NOT FOUND THEN
    IF (move->>'hold')::bigint = 0 THEN RETURN jsonb_build_object('verdict', 'lease_lost'); END IF;
    INSERT INTO reservation (id, organization_id, kind, amount, expires_at, created_at)
      VALUES (move->>'id', a.organization_id, 'lease', 0, at + ttl, at) RETURNING * INTO r;
  ELSIF r.state <> 'reserved' OR r.organization_id <> a.organization_id THEN
    RETURN jsonb_build_object('verdict', 'lease_lost');
  END IF;
  WITH told AS (
    INSERT INTO leased_chat AS l (id, lease_id, organization_id, key_id, model, provider, streamed,
        request_id, state, amount, reason, input_tokens, output_tokens, counted_by, created_at)
      SELECT c.id, r.id, a.organization_id, c."keyId", c.model, c.provider, c.streamed,
        c."requestId", c.state, c.amount, c.reason, c.input, c.output, c."countedBy",
        at - c."ageMs" * interval '1 millisecond'
      FROM jsonb_to_recordset(move->'chats') AS c(id text, "keyId" text, model text, provider text,
        streamed boolean, "requestId" text, state text, amount bigint, reason text, input bigint,
        output bigint, "countedBy" text, "ageMs" float8)
      ON CONFLICT (id) DO UPDATE SET state = excluded.state, amount = excluded.amount,
        reason = excluded.reason, input_tokens = excluded.input_tokens,
        output_tokens = excluded.output_tokens, counted_by = excluded.counted_by
        WHERE l.state = 'reserved'
      RETURNING l.state, l.amount
  )
  SELECT coalesce(sum(amount) FILTER (WHERE state = 'charged'), 0) INTO spent FROM told;
  left_over := r.amount - spent;
  IF left_over < 0 THEN RAISE EXCEPTION 'lease % is overspent by %', r.id, -left_over; END IF;
  held := least((move->>'hold')::bigint,
    greatest(left_over, (a.posted - a.reserved + left_over) / 4));
  a := chat_lease_move(a, r, spent, held, 'chat lease');
  UPDATE reservation SET expires_at = at + ttl WHERE id = r.id AND state = 'reserved';
  RETURN jsonb_build_object('verdict', 'held', 'held', held);
END $$;

CREATE OR REPLACE FUNCTION chat_apply(moves jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  answers jsonb[] := array_fill(NULL::jsonb, ARRAY[jsonb_array_length(moves)]);
  m record;
BEGIN
  FOR m IN
    SELECT x.value AS move, x.ordinality AS position
    FROM jsonb_array_elements(moves) WITH ORDINALITY AS x
    ORDER BY x.value->>'organizationId', x.value->>'id', x.ordinality
  LOOP
    answers[m.position] := CASE m.move->>'verb'
      WHEN 'reserve' THEN chat_reserve(m.move)
      WHEN 'settle' THEN chat_settle(m.move)
      WHEN 'lease' THEN chat_lease_sync(m.move)
    END;
  END LOOP;
  RETURN to_jsonb(answers);
END $$;

-- Ends leases whose API is gone: charges the last checkpoints of their chats, gives the rest back.
CREATE FUNCTION chat_lease_sweep(count_max integer) RETURNS TABLE (id text, state text, charged bigint)
LANGUAGE plpgsql AS $$
DECLARE due record; a account; r reservation; spent bigint;
BEGIN
  FOR due IN
    SELECT l.id, l.organization_id FROM reservation l
      WHERE l.state = 'reserved' AND l.kind = 'lease' AND l.expires_at < clock_timestamp()
      ORDER BY l.organization_id, l.id LIMIT count_max
  LOOP
    SELECT * INTO a FROM account WHERE organization_id = due.organization_id FOR UPDATE;
    SELECT * INTO r FROM reservation l
      WHERE l.id = due.id AND l.state = 'reserved' AND l.expires_at < clock_timestamp();
    CONTINUE WHEN NOT FOUND;
    UPDATE leased_chat c SET reason = 'CHAT_LOST',
        state = CASE WHEN c.amount > 0 THEN 'charged' ELSE 'released' END,
        counted_by = CASE WHEN c.amount > 0 THEN 'gateway' END,
        input_tokens = CASE WHEN c.amount > 0 THEN c.input_tokens ELSE 0 END,
        output_tokens = CASE WHEN c.amount > 0 THEN c.output_tokens ELSE 0 END
      WHERE c.lease_id = r.id AND c.state = 'reserved';
    SELECT coalesce(sum(c.amount), 0) INTO spent FROM leased_chat c
      WHERE c.lease_id = r.id AND c.reason = 'CHAT_LOST';
    PERFORM chat_lease_move(a, r, spent, 0, 'CHAT_LOST');
    RETURN QUERY SELECT due.id, 'released', spent;
  END LOOP;
END $$;

-- Asks the processes that hold leases of an organization to give back what no running chat needs;
-- answers with what is leased, and with what is there.
CREATE FUNCTION recall_chat_leases(organization text) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE leased bigint; available bigint;
BEGIN
  SELECT coalesce(sum(amount), 0) INTO leased FROM reservation
    WHERE organization_id = organization AND kind = 'lease' AND state = 'reserved';
  IF leased > 0 THEN PERFORM pg_notify('chat_lease', organization); END IF;
  SELECT posted - reserved INTO available FROM account WHERE organization_id = organization;
  RETURN jsonb_build_object('leased', leased, 'available', coalesce(available, 0));
END $$;

-- As ledger_audit, for leases.
CREATE VIEW chat_lease_audit AS
SELECT 'a lease and its ledger entries disagree' AS finding, r.id AS subject FROM reservation r
  LEFT JOIN (SELECT reservation_id, sum(posted_change) AS posted, sum(reserved_change) AS reserved
    FROM ledger_entry GROUP BY 1) e ON e.reservation_id = r.id
  LEFT JOIN (SELECT lease_id, sum(amount) AS spent FROM leased_chat
    WHERE state = 'charged' GROUP BY 1) c ON c.lease_id = r.id
  WHERE r.kind = 'lease' AND (coalesce(e.posted, 0) <> -coalesce(c.spent, 0)
    OR coalesce(e.reserved, 0) <> CASE r.state WHEN 'reserved' THEN r.amount ELSE 0 END)
UNION ALL
SELECT 'a chat runs on a lease that has ended', c.id FROM leased_chat c
  JOIN reservation r ON r.id = c.lease_id
  WHERE c.state = 'reserved' AND r.state <> 'reserved';
