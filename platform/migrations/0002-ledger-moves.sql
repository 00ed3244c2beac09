-- Money moves. Each is decided under the lock of its organization's account row; each is idempotent
-- by its id; a move that cannot happen is answered, never raised, so that neighbours in the same
-- batch are not touched. `ledger_apply` runs a whole batch in one round trip and one commit.

CREATE FUNCTION ledger_window_end(started timestamptz) RETURNS timestamptz
  LANGUAGE sql IMMUTABLE RETURN started + interval '6 hours';

-- Appends an entry and moves the account. The caller holds the account's lock.
CREATE FUNCTION ledger_post(
  a account, entry_key text, entry_kind text, reservation text,
  posted_delta bigint, reserved_delta bigint, by_actor text, because text, at timestamptz
) RETURNS account LANGUAGE plpgsql AS $$
BEGIN
  a.posted := a.posted + posted_delta;
  a.reserved := a.reserved + reserved_delta;
  a.sequence := a.sequence + 1;
  UPDATE account SET posted = a.posted, reserved = a.reserved, sequence = a.sequence,
    window_started_at = a.window_started_at, window_used = a.window_used
    WHERE organization_id = a.organization_id;
  INSERT INTO ledger_entry (organization_id, sequence, idempotency_key, kind, reservation_id,
      posted_change, reserved_change, posted_after, reserved_after, actor, reason, created_at)
    VALUES (a.organization_id, a.sequence, entry_key, entry_kind, reservation,
      posted_delta, reserved_delta, a.posted, a.reserved, by_actor, because, at);
  RETURN a;
END $$;

CREATE FUNCTION ledger_balance(a account) RETURNS jsonb LANGUAGE sql IMMUTABLE RETURN
  jsonb_build_object('posted', a.posted, 'reserved', a.reserved, 'available', a.posted - a.reserved);

-- {organizationId, id, kind, amount, ttlMs, job?: {...}}
CREATE FUNCTION ledger_reserve(move jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  a account; r reservation; at timestamptz; studio boolean := move->>'kind' = 'studio';
  price bigint := (move->>'amount')::bigint; j jsonb := move->'job';
BEGIN
  SELECT * INTO a FROM account WHERE organization_id = move->>'organizationId' FOR UPDATE;
  IF NOT FOUND THEN RETURN jsonb_build_object('verdict', 'no_account'); END IF;
  SELECT * INTO r FROM reservation WHERE id = move->>'id';
  IF FOUND THEN
    IF r.organization_id <> a.organization_id OR r.amount <> price THEN
      RETURN jsonb_build_object('verdict', 'mismatch', 'balance', ledger_balance(a));
    END IF;
    RETURN jsonb_build_object('verdict', 'reserved', 'repeated', true, 'state', r.state,
      'createdAt', r.created_at, 'balance', ledger_balance(a));
  END IF;
  at := clock_timestamp();
  IF a.posted - a.reserved < price THEN
    RETURN jsonb_build_object('verdict', 'insufficient_credits', 'required', price,
      'balance', ledger_balance(a));
  END IF;
  IF studio THEN
    -- A window opens with the first reservation after the last one ended.
    IF a.window_started_at IS NULL OR at >= ledger_window_end(a.window_started_at) THEN
      a.window_started_at := at;
      a.window_used := 0;
    END IF;
    IF a.window_limit IS NOT NULL AND a.window_used + price > a.window_limit THEN
      RETURN jsonb_build_object('verdict', 'window_exhausted',
        'resetAt', ledger_window_end(a.window_started_at), 'now', at,
        'balance', ledger_balance(a));
    END IF;
    a.window_used := a.window_used + price;
  END IF;
  INSERT INTO reservation (id, organization_id, kind, amount, window_started_at, expires_at, created_at)
    VALUES (move->>'id', a.organization_id, move->>'kind', price,
      CASE WHEN studio THEN a.window_started_at END,
      at + (move->>'ttlMs')::bigint * interval '1 millisecond', at);
  a := ledger_post(a, 'reserve:' || (move->>'id'), 'reserve', move->>'id', 0, price, NULL, NULL, at);
  IF j IS NOT NULL THEN
    INSERT INTO job (id, organization_id, key_id, type, model, provider, request, request_id,
        created_at, deadline_at)
      VALUES (move->>'id', a.organization_id, j->>'keyId', j->>'type', j->>'model', j->>'provider',
        j->'request', j->>'requestId', at, (j->>'deadlineAt')::timestamptz);
    PERFORM pg_notify('studio_job', jsonb_build_object('id', move->>'id', 'event', 'reserved')::text);
  END IF;
  RETURN jsonb_build_object('verdict', 'reserved', 'repeated', false, 'state', 'reserved',
    'createdAt', at, 'balance', ledger_balance(a));
END $$;

-- {organizationId, id, to: charged|released, amount?, reason?, job?: {status, outputs?, error?, artifacts?}}
CREATE FUNCTION ledger_settle(move jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  a account; r reservation; at timestamptz; cost bigint; j jsonb := move->'job';
BEGIN
  SELECT * INTO a FROM account WHERE organization_id = move->>'organizationId' FOR UPDATE;
  IF NOT FOUND THEN RETURN jsonb_build_object('verdict', 'not_reserved'); END IF;
  SELECT * INTO r FROM reservation WHERE id = move->>'id' AND organization_id = a.organization_id;
  IF NOT FOUND THEN
    RETURN jsonb_build_object('verdict', 'not_reserved', 'balance', ledger_balance(a));
  END IF;
  IF r.state <> 'reserved' THEN
    RETURN jsonb_build_object('verdict', 'already_settled', 'state', r.state,
      'charged', coalesce(r.charged, 0), 'balance', ledger_balance(a));
  END IF;
  at := clock_timestamp();
  cost := CASE WHEN move->>'to' = 'charged' THEN (move->>'amount')::bigint ELSE 0 END;
  IF cost > r.amount THEN
    RETURN jsonb_build_object('verdict', 'above_reservation', 'balance', ledger_balance(a));
  END IF;
  UPDATE reservation SET state = move->>'to', reason = move->>'reason', settled_at = at,
    charged = CASE WHEN move->>'to' = 'charged' THEN cost END WHERE id = r.id;
  -- What was not used goes back to the window it came from, never to a later one.
  IF a.window_started_at = r.window_started_at THEN
    a.window_used := a.window_used - (r.amount - cost);
  END IF;
  a := ledger_post(a, 'settle:' || r.id,
    CASE WHEN move->>'to' = 'charged' THEN 'charge' ELSE 'release' END,
    r.id, -cost, -r.amount, NULL, move->>'reason', at);
  IF j IS NOT NULL THEN
    UPDATE job SET status = j->>'status', outputs = nullif(j->'outputs', 'null'),
      error = nullif(j->'error', 'null'), completed_at = at, verifying = false WHERE id = r.id;
    INSERT INTO artifact (storage_key, job_id, organization_id, content_type, size_bytes, sha256)
      SELECT x.storage_key, r.id, a.organization_id, x.content_type, x.size_bytes, x.sha256
      FROM jsonb_to_recordset(coalesce(j->'artifacts', '[]')) AS x(
        storage_key text, content_type text, size_bytes bigint, sha256 text);
    PERFORM pg_notify('studio_job', jsonb_build_object('id', r.id, 'event', 'done')::text);
  END IF;
  RETURN jsonb_build_object('verdict', 'settled', 'state', move->>'to', 'charged', cost,
    'balance', ledger_balance(a));
END $$;

-- {organizationId, id, amount, actor, reason}: adds credits (or takes unreserved ones back).
CREATE FUNCTION ledger_grant(move jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE a account; e ledger_entry; delta bigint := (move->>'amount')::bigint;
BEGIN
  SELECT * INTO a FROM account WHERE organization_id = move->>'organizationId' FOR UPDATE;
  IF NOT FOUND THEN RETURN jsonb_build_object('verdict', 'no_account'); END IF;
  SELECT * INTO e FROM ledger_entry
    WHERE organization_id = a.organization_id AND idempotency_key = 'grant:' || (move->>'id');
  IF FOUND THEN
    RETURN jsonb_build_object(
      'verdict', CASE WHEN e.posted_change = delta THEN 'granted' ELSE 'mismatch' END,
      'repeated', true, 'balance', ledger_balance(a));
  END IF;
  IF a.posted - a.reserved + delta < 0 THEN
    RETURN jsonb_build_object('verdict', 'insufficient_credits', 'required', -delta,
      'balance', ledger_balance(a));
  END IF;
  a := ledger_post(a, 'grant:' || (move->>'id'), 'grant', NULL, delta, 0,
    move->>'actor', move->>'reason', clock_timestamp());
  RETURN jsonb_build_object('verdict', 'granted', 'repeated', false, 'balance', ledger_balance(a));
END $$;

-- Applies a batch: one round trip, one commit, an answer per move in the order given. Moves are taken
-- in the order of organization and id, so that two batches never wait for each other in a circle.
CREATE FUNCTION ledger_apply(moves jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
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
      WHEN 'reserve' THEN ledger_reserve(m.move)
      WHEN 'settle' THEN ledger_settle(m.move)
      WHEN 'grant' THEN ledger_grant(m.move)
    END;
  END LOOP;
  RETURN to_jsonb(answers);
END $$;

-- Returns no row while every promise of the ledger holds (docs/guarantees.md).
CREATE VIEW ledger_audit AS
SELECT 'account differs from the sum of its entries' AS finding, a.organization_id AS subject
  FROM account a
  LEFT JOIN (SELECT organization_id, sum(posted_change) AS posted, sum(reserved_change) AS reserved,
      max(sequence) AS last, count(*) AS entries FROM ledger_entry GROUP BY 1) e USING (organization_id)
  WHERE (a.posted, a.reserved, a.sequence)
      IS DISTINCT FROM (coalesce(e.posted, 0), coalesce(e.reserved, 0), coalesce(e.last, 0))
    OR coalesce(e.last, 0) <> coalesce(e.entries, 0)
UNION ALL
SELECT 'reserved credits differ from the open reservations', a.organization_id FROM account a
  LEFT JOIN (SELECT organization_id, sum(amount) AS open FROM reservation WHERE state = 'reserved'
    GROUP BY 1) r USING (organization_id)
  WHERE a.reserved <> coalesce(r.open, 0)
UNION ALL
SELECT 'a reservation and its settle entry disagree', r.id FROM reservation r
  LEFT JOIN ledger_entry s
    ON s.organization_id = r.organization_id AND s.idempotency_key = 'settle:' || r.id
  WHERE (r.state = 'reserved') <> (s.sequence IS NULL)
    OR (s.sequence IS NOT NULL AND ((s.kind = 'charge') <> (r.state = 'charged')
      OR -s.posted_change <> coalesce(r.charged, 0) OR -s.reserved_change <> r.amount))
UNION ALL
SELECT 'entries do not chain', organization_id || ':' || sequence FROM (
    SELECT *, lag(posted_after, 1, 0::bigint) OVER chain AS posted_before,
      lag(reserved_after, 1, 0::bigint) OVER chain AS reserved_before
    FROM ledger_entry WINDOW chain AS (PARTITION BY organization_id ORDER BY sequence)) e
  WHERE posted_after <> posted_before + posted_change
    OR reserved_after <> reserved_before + reserved_change
    OR posted_after < 0 OR reserved_after < 0 OR reserved_after > posted_after
UNION ALL
SELECT 'window use differs from its reservations', a.organization_id FROM account a
  LEFT JOIN (SELECT organization_id, window_started_at,
      sum(CASE state WHEN 'reserved' THEN amount ELSE coalesce(charged, 0) END) AS used
    FROM reservation WHERE kind = 'studio' GROUP BY 1, 2) r
    ON r.organization_id = a.organization_id AND r.window_started_at = a.window_started_at
  WHERE a.window_used <> coalesce(r.used, 0)
UNION ALL
SELECT 'a job and its reservation disagree', j.id FROM job j JOIN reservation r ON r.id = j.id
  WHERE (j.status = 'completed') <> (r.state = 'charged')
    OR (j.status IN ('failed', 'canceled')) <> (r.state = 'released')
UNION ALL
SELECT 'a completed job has no artifact', j.id FROM job j
  WHERE j.status = 'completed' AND jsonb_path_exists(j.outputs, '$[*].artifacts[*]')
    AND NOT EXISTS (SELECT FROM artifact f WHERE f.job_id = j.id);

-- Provider calls -------------------------------------------------------------------------------

-- Says whether a call may be sent now. A row in `begun` from an earlier attempt means that the earlier
-- attempt may have reached the provider: the answer is `unknown`, never a second send.
-- {jobId, callIndex, routeIndex, provider}
CREATE FUNCTION call_begin(move jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE c provider_call;
BEGIN
  INSERT INTO provider_call (job_id, call_index, route_index, provider, state)
    VALUES (move->>'jobId', (move->>'callIndex')::integer, (move->>'routeIndex')::integer,
      move->>'provider', 'begun')
    ON CONFLICT (job_id, call_index) DO NOTHING;
  IF FOUND THEN RETURN jsonb_build_object('verdict', 'send'); END IF;
  SELECT * INTO c FROM provider_call
    WHERE job_id = move->>'jobId' AND call_index = (move->>'callIndex')::integer FOR UPDATE;
  IF c.state = 'refused' THEN
    UPDATE provider_call SET state = 'begun', route_index = (move->>'routeIndex')::integer,
      provider = move->>'provider', updated_at = clock_timestamp()
      WHERE job_id = c.job_id AND call_index = c.call_index;
    RETURN jsonb_build_object('verdict', 'send');
  END IF;
  RETURN jsonb_build_object('verdict', CASE c.state WHEN 'begun' THEN 'unknown' ELSE c.state END,
    'routeIndex', c.route_index, 'operation', c.operation, 'outputs', c.outputs);
END $$;

-- {jobId, callIndex, state, operation?, outputs?, progress?}
CREATE FUNCTION call_record(move jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
BEGIN
  UPDATE provider_call SET state = coalesce(move->>'state', state),
    operation = coalesce(nullif(move->'operation', 'null'), operation),
    outputs = coalesce(nullif(move->'outputs', 'null'), outputs),
    progress = coalesce(nullif(move->'progress', 'null'), progress), updated_at = clock_timestamp()
    WHERE job_id = move->>'jobId' AND call_index = (move->>'callIndex')::integer;
  RETURN jsonb_build_object('verdict', CASE WHEN FOUND THEN 'recorded' ELSE 'no_call' END);
END $$;

-- A batch of call_begin and call_record, as ledger_apply. It never touches an account row.
CREATE FUNCTION call_apply(moves jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  answers jsonb[] := array_fill(NULL::jsonb, ARRAY[jsonb_array_length(moves)]);
  m record;
BEGIN
  FOR m IN
    SELECT x.value AS move, x.ordinality AS position
    FROM jsonb_array_elements(moves) WITH ORDINALITY AS x
    ORDER BY x.value->>'jobId', (x.value->>'callIndex')::integer, x.ordinality
  LOOP
    answers[m.position] := CASE m.move->>'verb'
      WHEN 'begin' THEN call_begin(m.move)
      WHEN 'record' THEN call_record(m.move)
    END;
  END LOOP;
  RETURN to_jsonb(answers);
END $$;
