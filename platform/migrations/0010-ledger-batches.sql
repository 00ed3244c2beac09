-- Money moves of a whole batch at once: the accounts are locked first, then every move is decided in
-- memory, then each table is written by one statement. What a move answers and leaves behind is what it
-- was in 0002; a move by itself is a batch of one.

-- What the loop over a batch keeps of the tables' rows: without their checks, which Postgres would copy
-- at each use of a row type.
CREATE TYPE ledger_account AS (
  organization_id text, posted bigint, reserved bigint, sequence bigint,
  window_started_at timestamptz, window_used bigint, window_limit bigint);
CREATE TYPE ledger_reservation AS (
  id text, organization_id text, kind text, amount bigint, charged bigint, state text, reason text,
  window_started_at timestamptz, expires_at timestamptz, created_at timestamptz, settled_at timestamptz);
CREATE TYPE ledger_line AS (
  organization_id text, sequence bigint, idempotency_key text, kind text, reservation_id text,
  posted_change bigint, reserved_change bigint, posted_after bigint, reserved_after bigint,
  actor text, reason text, created_at timestamptz);

-- Writes the jobs of a batch: rows of those that were reserved, the ends of those that were settled.
CREATE FUNCTION ledger_write_jobs(moves jsonb, answers jsonb[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF moves @? '$[*] ? (@.verb == "reserve").job' THEN
    INSERT INTO job (id, organization_id, key_id, type, model, provider, request, request_id,
        created_at, deadline_at)
      SELECT m->>'id', m->>'organizationId', j->>'keyId', j->>'type', j->>'model', j->>'provider',
        j->'request', j->>'requestId', (answer->>'createdAt')::timestamptz,
        (j->>'deadlineAt')::timestamptz
      FROM ROWS FROM (jsonb_array_elements(moves), unnest(answers)) AS x(m, answer),
        LATERAL (SELECT m->'job' AS j) AS told
      WHERE j IS NOT NULL AND answer @> '{"verdict": "reserved", "repeated": false}';
  END IF;
  IF moves @? '$[*] ? (@.verb == "settle").job' THEN
    UPDATE job SET status = j->>'status', outputs = nullif(j->'outputs', 'null'),
        error = nullif(j->'error', 'null'), completed_at = r.settled_at, verifying = false
      FROM ROWS FROM (jsonb_array_elements(moves), unnest(answers)) AS x(m, answer)
      JOIN reservation r ON r.id = m->>'id', LATERAL (SELECT m->'job' AS j) AS told
      WHERE j IS NOT NULL AND answer @> '{"verdict": "settled"}' AND job.id = r.id;
    INSERT INTO artifact (storage_key, job_id, organization_id, content_type, size_bytes, sha256)
      SELECT f.storage_key, m->>'id', m->>'organizationId', f.content_type, f.size_bytes, f.sha256
      FROM ROWS FROM (jsonb_array_elements(moves), unnest(answers)) AS x(m, answer),
        jsonb_to_recordset(m->'job'->'artifacts') AS f(
          storage_key text, content_type text, size_bytes bigint, sha256 text)
      WHERE answer @> '{"verdict": "settled"}';
  END IF;
  PERFORM pg_notify('studio_job', jsonb_build_object('id', m->>'id', 'event',
      CASE answer->>'verdict' WHEN 'reserved' THEN 'reserved' ELSE 'done' END)::text)
    FROM ROWS FROM (jsonb_array_elements(moves), unnest(answers)) AS x(m, answer)
    WHERE m ? 'job' AND (answer @> '{"verdict": "reserved", "repeated": false}'
      OR answer @> '{"verdict": "settled"}');
END $$;

-- Writes what a batch decided, and answers it. The keys of entries and jobs refer to reservations: those
-- come first.
CREATE FUNCTION ledger_write(
  accounts ledger_account[], made ledger_reservation[], settled ledger_reservation[],
  lines ledger_line[], moves jsonb, answers jsonb[]
) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE a ledger_account;
BEGIN
  IF cardinality(accounts) = 1 THEN
    -- One row by its key costs a move by itself less than a join.
    a := accounts[1];
    UPDATE account SET posted = a.posted, reserved = a.reserved, sequence = a.sequence,
      window_started_at = a.window_started_at, window_used = a.window_used
      WHERE organization_id = a.organization_id;
  ELSE
    UPDATE account w SET posted = n.posted, reserved = n.reserved, sequence = n.sequence,
      window_started_at = n.window_started_at, window_used = n.window_used
      FROM unnest(accounts) AS n
      WHERE w.organization_id = n.organization_id AND w.sequence <> n.sequence;
  END IF;
  IF made IS NOT NULL THEN
    INSERT INTO reservation (id, organization_id, kind, amount, window_started_at, expires_at, created_at)
      SELECT id, organization_id, kind, amount, window_started_at, expires_at, created_at
      FROM unnest(made);
  END IF;
  IF settled IS NOT NULL THEN
    UPDATE reservation r SET state = n.state, reason = n.reason, settled_at = n.settled_at,
      charged = n.charged FROM unnest(settled) AS n WHERE r.id = n.id;
  END IF;
  INSERT INTO ledger_entry (organization_id, sequence, idempotency_key, kind, reservation_id,
      posted_change, reserved_change, posted_after, reserved_after, actor, reason, created_at)
    SELECT * FROM unnest(lines);
  IF moves @? '$[*].job' THEN PERFORM ledger_write_jobs(moves, answers); END IF;
  RETURN to_jsonb(answers);
END $$;

-- What was granted under an id; null: nothing.
CREATE FUNCTION ledger_granted(organization text, grant_id text) RETURNS bigint LANGUAGE sql STABLE RETURN
  (SELECT posted_change FROM ledger_entry
    WHERE organization_id = organization AND idempotency_key = 'grant:' || grant_id);

-- The answer to a move that moves nothing: to a repeat what stands, to the others why they are refused.
CREATE FUNCTION ledger_unmoved(
  move jsonb, a ledger_account, r ledger_reservation, price bigint, opened timestamptz, used bigint,
  granted bigint, at timestamptz
) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE verb text := move->>'verb';
BEGIN
  IF a.organization_id IS NULL THEN
    RETURN jsonb_build_object('verdict',
      CASE WHEN verb = 'settle' THEN 'not_reserved' ELSE 'no_account' END);
  ELSIF verb = 'grant' AND granted IS NOT NULL THEN
    RETURN jsonb_build_object('repeated', true,
      'verdict', CASE WHEN granted = price THEN 'granted' ELSE 'mismatch' END);
  ELSIF verb = 'grant' AND a.posted - a.reserved + price < 0 THEN
    RETURN jsonb_build_object('verdict', 'insufficient_credits', 'required', -price);
  ELSIF verb = 'settle' AND (r.id IS NULL OR r.organization_id <> a.organization_id) THEN
    RETURN jsonb_build_object('verdict', 'not_reserved');
  ELSIF verb = 'settle' AND r.state <> 'reserved' THEN
    RETURN jsonb_build_object('verdict', 'already_settled', 'state', r.state,
      'charged', coalesce(r.charged, 0));
  ELSIF verb = 'settle' AND price > r.amount THEN
    RETURN jsonb_build_object('verdict', 'above_reservation');
  ELSIF verb = 'reserve' AND (r.organization_id <> a.organization_id OR r.amount <> price) THEN
    RETURN jsonb_build_object('verdict', 'mismatch');
  ELSIF verb = 'reserve' AND r.id IS NOT NULL THEN
    RETURN jsonb_build_object('verdict', 'reserved', 'repeated', true, 'state', r.state,
      'createdAt', r.created_at);
  ELSIF verb = 'reserve' AND a.posted - a.reserved < price THEN
    RETURN jsonb_build_object('verdict', 'insufficient_credits', 'required', price);
  ELSIF verb = 'reserve' AND used > a.window_limit THEN
    RETURN jsonb_build_object('verdict', 'window_exhausted', 'resetAt', ledger_window_end(opened),
      'now', at);
  END IF;
  RAISE EXCEPTION 'a move has an amount: %', move->>'id';
END $$;

-- The entry of a move, after which the account stands as `a`.
CREATE FUNCTION ledger_line_of(
  move jsonb, a ledger_account, entry text, posted bigint, reserved bigint, at timestamptz
) RETURNS ledger_line LANGUAGE sql IMMUTABLE RETURN ROW((a).organization_id, (a).sequence,
  move->>'verb' || ':' || (move->>'id'), entry, CASE WHEN entry <> 'grant' THEN move->>'id' END,
  posted, reserved, (a).posted, (a).reserved, CASE WHEN entry = 'grant' THEN move->>'actor' END,
  CASE WHEN entry <> 'reserve' THEN move->>'reason' END, at)::ledger_line;

-- The moves of a batch in the order in which they are decided, with the reservations that they find.
CREATE FUNCTION ledger_moves(moves jsonb) RETURNS TABLE ("position" bigint, move jsonb, organization text,
  id text, verb text, amount bigint, found ledger_reservation) LANGUAGE sql STABLE AS $$
  SELECT x.position, x.move, x.move->>'organizationId', x.move->>'id', x.move->>'verb',
    (x.move->>'amount')::bigint,
    ROW(r.id, r.organization_id, r.kind, r.amount, r.charged, r.state, r.reason, r.window_started_at,
      r.expires_at, r.created_at, r.settled_at)::ledger_reservation
  FROM jsonb_array_elements(moves) WITH ORDINALITY AS x(move, position)
  LEFT JOIN reservation r ON r.id = x.move->>'id'
  ORDER BY x.move->>'organizationId', x.move->>'id', x.position
$$;

-- A chat is given as much of its most as is there, never less than its least.
CREATE FUNCTION ledger_chat_price(move jsonb, available bigint) RETURNS bigint LANGUAGE sql IMMUTABLE RETURN
  greatest((move->>'amountMin')::bigint, least((move->>'amountMax')::bigint, available));

CREATE FUNCTION ledger_balance(a ledger_account) RETURNS jsonb LANGUAGE sql IMMUTABLE RETURN
  jsonb_build_object('posted', (a).posted, 'reserved', (a).reserved,
    'available', (a).posted - (a).reserved);

-- Decides a batch and writes what was decided. `accounts`: those that its moves name, locked, in the order
-- of their organizations; the moves of one organization, and in them those of one id, follow each other.
CREATE FUNCTION ledger_decide(moves jsonb, accounts ledger_account[]) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  answers jsonb[] := array_fill(NULL::jsonb, ARRAY[jsonb_array_length(moves)]);
  m record; a ledger_account; r ledger_reservation; answer jsonb; at timestamptz; place integer := 0;
  organization text; id text; price bigint; opened timestamptz; used bigint; granted bigint;
  entry text; studio boolean; chat boolean; charging boolean; posted bigint; reserved bigint;
  made ledger_reservation[]; settled ledger_reservation[]; lines ledger_line[];
BEGIN
  FOR m IN SELECT * FROM ledger_moves(moves) LOOP
    IF organization IS DISTINCT FROM m.organization THEN
      organization := m.organization; id := NULL; r := NULL; a := accounts[place + 1];
      IF a.organization_id = organization THEN place := place + 1; ELSE a := NULL; END IF;
    END IF;
    -- What an earlier move of the batch made of a reservation is newer than its row.
    IF id IS DISTINCT FROM m.id THEN id := m.id; r := m.found; granted := NULL; END IF;
    at := clock_timestamp(); price := m.amount; opened := a.window_started_at; used := a.window_used;
    entry := NULL; chat := m.move ? 'chat';
    IF m.verb = 'reserve' THEN
      IF chat THEN price := ledger_chat_price(m.move, a.posted - a.reserved); END IF;
      studio := m.move->>'kind' IS NOT DISTINCT FROM 'studio';
      -- A window opens with the first reservation after the last one ended.
      IF studio AND (opened IS NULL OR at >= ledger_window_end(opened)) THEN opened := at; used := 0; END IF;
      IF studio THEN used := used + price; END IF;
      IF r.id IS NULL AND a.posted - a.reserved >= price
          AND (NOT studio OR a.window_limit IS NULL OR used <= a.window_limit) THEN
        r := ROW(id, organization, CASE WHEN chat THEN 'chat' ELSE m.move->>'kind' END, price, NULL,
          'reserved', NULL, CASE WHEN studio THEN opened END,
          at + (m.move->>'ttlMs')::bigint * interval '1 millisecond', at, NULL);
        made := made || r; entry := 'reserve'; posted := 0; reserved := price;
        answer := jsonb_build_object('verdict', 'reserved', 'repeated', false, 'state', 'reserved',
          'createdAt', at);
      END IF;
    ELSIF m.verb = 'settle' THEN
      charging := m.move->>'to' = 'charged';
      IF NOT charging THEN price := 0; END IF;
      IF r.organization_id = organization AND r.state = 'reserved' AND price <= r.amount THEN
        r.state := m.move->>'to'; r.reason := m.move->>'reason'; r.settled_at := at;
        IF charging THEN r.charged := price; END IF;
        -- What was not used goes back to the window it came from, never to a later one.
        IF opened = r.window_started_at THEN used := used - (r.amount - price); END IF;
        settled := settled || r; entry := CASE WHEN charging THEN 'charge' ELSE 'release' END;
        posted := -price; reserved := -r.amount;
        answer := jsonb_build_object('verdict', 'settled', 'state', r.state, 'charged', price);
      END IF;
    ELSIF m.verb = 'grant' THEN
      granted := coalesce(granted, ledger_granted(organization, id));
      IF granted IS NULL AND a.posted - a.reserved + price >= 0 THEN
        granted := price; entry := 'grant'; posted := price; reserved := 0;
        answer := jsonb_build_object('verdict', 'granted', 'repeated', false);
      END IF;
    ELSE CONTINUE;
    END IF;
    IF entry IS NULL THEN
      answer := ledger_unmoved(m.move, a, r, price, opened, used, granted, at);
    ELSE
      a := ROW(organization, a.posted + posted, a.reserved + reserved, a.sequence + 1, opened, used,
        a.window_limit);
      accounts[place] := a;
      lines := lines || ledger_line_of(m.move, a, entry, posted, reserved, at);
    END IF;
    IF a.organization_id IS NOT NULL THEN
      answer := answer || jsonb_build_object('balance', ledger_balance(a));
      IF chat THEN answer := answer || jsonb_build_object('amount', price); END IF;
    END IF;
    answers[m.position] := answer;
  END LOOP;
  IF lines IS NULL THEN RETURN to_jsonb(answers); END IF;
  RETURN ledger_write(accounts, made, settled, lines, moves, answers);
END $$;

-- Applies a batch: one round trip, one commit, an answer per move in the order given. Accounts are locked
-- in the order of their organizations, so that two batches never wait for each other in a circle.
--   reserve {organizationId, id, kind, amount, ttlMs, job?: {...}}
--   settle {organizationId, id, to: charged|released, amount?, reason?,
--     job?: {status, outputs?, error?, artifacts?}}
--   grant {organizationId, id, amount, actor, reason}: adds credits, or takes unreserved ones back
-- The settings: rows are found by their keys, whatever the planner believes of a table that grows.
CREATE OR REPLACE FUNCTION ledger_apply(moves jsonb) RETURNS jsonb LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE a ledger_account; accounts ledger_account[]; m record; answers jsonb[];
BEGIN
  IF jsonb_array_length(moves) = 1 THEN
    -- A move by itself waits for somebody: nothing is gathered or sorted for it.
    SELECT organization_id, posted, reserved, sequence, window_started_at, window_used, window_limit
      INTO a FROM account WHERE organization_id = moves->0->>'organizationId' FOR UPDATE;
    RETURN ledger_decide(moves, ARRAY[a]);
  END IF;
  accounts := ARRAY(
    SELECT ROW(organization_id, posted, reserved, sequence, window_started_at, window_used,
      window_limit)::ledger_account
    FROM account
    WHERE organization_id = ANY (ARRAY(SELECT jsonb_array_elements(moves)->>'organizationId'))
    ORDER BY organization_id FOR UPDATE);
  IF cardinality(accounts) > 1 THEN
    -- One id in two organizations: whose it is, is known when the first move has been written.
    IF EXISTS (SELECT FROM jsonb_array_elements(moves) AS x(move) GROUP BY move->>'id'
        HAVING min(move->>'organizationId') <> max(move->>'organizationId')) THEN
      FOR m IN
        SELECT x.position, x.move FROM jsonb_array_elements(moves) WITH ORDINALITY AS x(move, position)
        ORDER BY x.move->>'organizationId', x.move->>'id', x.position
      LOOP
        answers[m.position] := ledger_apply(jsonb_build_array(m.move))->0;
      END LOOP;
      RETURN to_jsonb(answers);
    END IF;
  END IF;
  RETURN ledger_decide(moves, accounts);
END $$;

-- A grant by itself, for operators.
CREATE OR REPLACE FUNCTION ledger_grant(move jsonb) RETURNS jsonb LANGUAGE sql RETURN
  ledger_apply(jsonb_build_array(move || '{"verb": "grant"}'))->0;
