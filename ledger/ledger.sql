-- The ledger: every move of money. reserve → charge | release, refunds of charges, and grants.
--
-- ledger_apply takes a batch of moves: one round trip, one commit, an answer per move. Each move is
-- decided in memory by the function of its verb, under the locks of the accounts; then each table
-- is written once. A function decide_… receives the account (null if there is none), the
-- reservation with the id of the move (null if there is none) and the move. It returns the answer,
-- the new account and reservation, and the key and kind of the ledger entry. Without a key nothing
-- changes. A move is idempotent by its id; an impossible move is answered, not raised as an error,
-- so that the other moves of the batch are not affected.

CREATE FUNCTION ledger_window_end(started timestamptz) RETURNS timestamptz
  LANGUAGE sql IMMUTABLE RETURN started + interval '6 hours';

CREATE FUNCTION ledger_balance(a account) RETURNS json LANGUAGE sql STABLE RETURN
  json_build_object('posted', a.posted, 'reserved', a.reserved, 'available', a.posted - a.reserved);

-- Reserves {organizationId, id, kind, amount, ttlMs, job?}. A chat has {amountMin, amountMax,
-- claim?, chat} instead of amount and job: the reservation is as much of amountMax as balance and
-- budget allow, and at least amountMin; `payable` is the total that they allow. `budget` is the
-- budget of the key (budgets.sql), or null.
CREATE FUNCTION decide_reserve(INOUT a account, INOUT r reservation, move jsonb, budget jsonb,
  OUT answer json, OUT key text, OUT kind text) LANGUAGE plpgsql AS $$
DECLARE
  at timestamptz := clock_timestamp();
  available bigint := a.posted - a.reserved;
  key_limit bigint := budget->>'limit';
  key_used bigint := budget->>'used';
  payable bigint := least(available, key_limit - key_used);
  price bigint := coalesce((move->>'amount')::bigint,
    greatest((move->>'amountMin')::bigint, least((move->>'amountMax')::bigint, payable)));
  studio boolean := move->>'kind' = 'studio';
  chat jsonb := move->'chat';
BEGIN
  -- A window opens with the first reservation after the end of the previous window. It starts at a
  -- whole millisecond, because responses show milliseconds.
  IF studio AND (at < ledger_window_end(a.window_started_at)) IS NOT TRUE THEN
    a.window_started_at := date_trunc('milliseconds', at); a.window_used := 0;
  END IF;
  IF a.organization_id IS NULL THEN
    answer := '{"verdict": "no_account"}';
  ELSIF move ? 'claim' AND NOT holds_claim(a.organization_id, move->'claim') THEN
    answer := '{"verdict": "claim_lost"}';
  ELSIF r.organization_id <> a.organization_id OR r.amount <> price THEN
    answer := '{"verdict": "mismatch"}';
  ELSIF r.id IS NOT NULL THEN
    answer := json_build_object('verdict', 'reserved', 'repeated', true, 'state', r.state,
      'amount', price, 'payable', price, 'createdAt', r.created_at, 'balance', ledger_balance(a));
  ELSIF key_limit = 0 OR key_used + price > key_limit THEN
    answer := (budget || jsonb_build_object('verdict', 'key_limit_exceeded', 'required', price))::json;
  ELSIF available < price THEN
    answer := json_build_object('verdict', 'insufficient_credits', 'required', price,
      'balance', ledger_balance(a));
  ELSIF studio AND price > a.window_limit THEN
    answer := json_build_object('verdict', 'window_limit_exceeded', 'required', price,
      'limit', a.window_limit, 'balance', ledger_balance(a));
  ELSIF studio AND a.window_used + price > a.window_limit THEN
    answer := json_build_object('verdict', 'window_exhausted', 'now', at, 'required', price,
      'limit', a.window_limit, 'used', a.window_used,
      'resetAt', ledger_window_end(a.window_started_at), 'balance', ledger_balance(a));
  ELSE
    a.reserved := a.reserved + price;
    IF studio THEN
      a.window_used := a.window_used + price;
      r.window_started_at := a.window_started_at;
    ELSE
      r.key_id := chat->>'keyId'; r.model := chat->>'model'; r.provider := chat->>'provider';
      r.streamed := chat->'streamed'; r.request_id := chat->>'requestId'; r.metadata := chat->'metadata';
      r.input_tokens := 0; r.output_tokens := 0; r.checkpoint_micro := 0; r.loss_micro := 0;
    END IF;
    r.id := move->>'id'; r.organization_id := a.organization_id; r.kind := move->>'kind';
    r.amount := price; r.state := 'reserved'; r.created_at := at;
    r.expires_at := at + (move->>'ttlMs')::bigint * interval '1 millisecond';
    key := 'reserve:' || r.id; kind := 'reserve';
    answer := json_build_object('verdict', 'reserved', 'repeated', false, 'state', 'reserved',
      'amount', price, 'payable', payable, 'createdAt', at, 'balance', ledger_balance(a));
  END IF;
END $$;

-- Settles {organizationId, id, to: charged|released, amount?, reason, job?: {status, outputs?,
-- error?, artifacts?}}; a chat has {inputTokens, outputTokens, countedBy, model?, provider?}
-- instead of job; model and provider are those that were called last. Charge and release share one
-- key, so that only one of them can happen. A chat may cost more than its reservation: the balance
-- and the budget of its key pay the difference, and `loss_micro` is the part that they cannot pay.
CREATE FUNCTION decide_settle(INOUT a account, INOUT r reservation, move jsonb, budget jsonb,
  OUT answer json, OUT key text, OUT kind text) LANGUAGE plpgsql AS $$
DECLARE
  charging boolean := move->>'to' = 'charged';
  price bigint := CASE WHEN charging THEN (move->>'amount')::bigint ELSE 0 END;
  payable bigint := r.amount + greatest(0,
    least(a.posted - a.reserved, (budget->>'limit')::bigint - (budget->>'used')::bigint));
  cost bigint := least(price, payable);
BEGIN
  IF (r.organization_id = a.organization_id) IS NOT TRUE THEN
    answer := '{"verdict": "not_reserved"}';
  ELSIF r.state <> 'reserved' THEN
    answer := json_build_object('verdict', 'already_settled', 'state', r.state,
      'charged', coalesce(r.charged, 0), 'balance', ledger_balance(a));
  ELSIF price > r.amount AND r.kind = 'studio' THEN
    answer := '{"verdict": "above_reservation"}';
  ELSE
    a.posted := a.posted - cost; a.reserved := a.reserved - r.amount;
    -- Unused credits go back to the window that they were reserved in, never to a later one.
    IF a.window_started_at = r.window_started_at THEN
      a.window_used := a.window_used - (r.amount - cost);
    END IF;
    r.state := move->>'to'; r.reason := move->>'reason'; r.settled_at := clock_timestamp();
    IF charging THEN r.charged := cost; END IF;
    IF r.kind = 'chat' THEN
      r.input_tokens := move->'inputTokens'; r.output_tokens := move->'outputTokens';
      r.cached_input_tokens := move->'cachedInputTokens'; r.cache_write_tokens := move->'cacheWriteTokens';
      r.reasoning_tokens := move->'reasoningTokens';
      r.counted_by := move->>'countedBy'; r.loss_micro := price - cost;
      r.model := coalesce(move->>'model', r.model); r.provider := coalesce(move->>'provider', r.provider);
    END IF;
    key := 'settle:' || r.id; kind := CASE WHEN charging THEN 'charge' ELSE 'release' END;
    answer := json_build_object('verdict', 'settled', 'state', r.state, 'charged', cost,
      'balance', ledger_balance(a));
  END IF;
END $$;

-- Refunds {organizationId, id, refundId, amount?, actor, reason}: gives credits of a charged
-- reservation back; without `amount`, all that are not refunded yet. The six-hour window and the
-- budget of the key do not change, because the work was done.
CREATE FUNCTION decide_refund(INOUT a account, INOUT r reservation, move jsonb,
  OUT answer json, OUT key text, OUT kind text) LANGUAGE plpgsql AS $$
DECLARE
  refund_key text := 'refund:' || r.id || ':' || (move->>'refundId');
  repeated ledger_entry; refundable bigint; change bigint;
BEGIN
  SELECT * INTO repeated FROM ledger_entry e
    WHERE e.organization_id = a.organization_id AND e.idempotency_key = refund_key;
  -- A repeated move is decided by the refunds before its entry.
  refundable := r.charged - (SELECT coalesce(sum(e.posted_change), 0) FROM ledger_entry e
    WHERE e.reservation_id = r.id AND e.kind = 'refund'
      AND (repeated.sequence IS NULL OR e.sequence < repeated.sequence));
  change := coalesce((move->>'amount')::bigint, refundable);
  IF (r.organization_id = a.organization_id) IS NOT TRUE THEN
    answer := '{"verdict": "not_reserved"}';
  ELSIF repeated.posted_change <> change THEN
    answer := '{"verdict": "mismatch"}';
  ELSIF repeated.sequence IS NULL AND (change BETWEEN 1 AND refundable) IS NOT TRUE THEN
    answer := json_build_object('verdict', 'not_refundable', 'state', r.state,
      'charged', coalesce(r.charged, 0), 'refunded', coalesce(r.refunded, 0));
  ELSE
    IF repeated.sequence IS NULL THEN
      a.posted := a.posted + change; r.refunded := coalesce(r.refunded, 0) + change;
      key := refund_key; kind := 'refund';
    END IF;
    answer := json_build_object('verdict', 'refunded', 'repeated', key IS NULL, 'amount', change,
      'refunded', r.refunded, 'balance', ledger_balance(a));
  END IF;
END $$;

-- {organizationId, id, amount, actor, reason}: adds credits, or takes unreserved ones back.
CREATE FUNCTION decide_grant(INOUT a account, INOUT r reservation, move jsonb,
  OUT answer json, OUT key text, OUT kind text) LANGUAGE plpgsql AS $$
DECLARE change bigint := move->>'amount'; granted bigint;
BEGIN
  r := NULL;
  SELECT e.posted_change INTO granted FROM ledger_entry e
    WHERE e.organization_id = a.organization_id AND e.idempotency_key = 'grant:' || (move->>'id');
  IF a.organization_id IS NULL THEN
    answer := '{"verdict": "no_account"}';
  ELSIF granted IS NOT NULL THEN
    answer := json_build_object('repeated', true, 'balance', ledger_balance(a),
      'verdict', CASE WHEN granted = change THEN 'granted' ELSE 'mismatch' END);
  ELSIF a.posted - a.reserved + change < 0 THEN
    answer := json_build_object('verdict', 'insufficient_credits', 'required', -change,
      'balance', ledger_balance(a));
  ELSE
    a.posted := a.posted + change;
    key := 'grant:' || (move->>'id'); kind := 'grant';
    answer := json_build_object('verdict', 'granted', 'repeated', false, 'balance', ledger_balance(a));
  END IF;
END $$;

-- Applies a batch (see above): an answer per move, in the order given. Accounts are locked in the
-- order of their organizations, so that two batches cannot deadlock; reservations are read after
-- that. The planner settings make Postgres find rows by their keys, because the statistics of a
-- growing table may be outdated.
CREATE FUNCTION ledger_apply(moves jsonb, lock_timeout_ms integer DEFAULT NULL) RETURNS json LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
  answers json[] := array_fill(NULL::json, ARRAY[jsonb_array_length(moves)]);
  accounts account[]; a account; place integer := 0; m record; d record;
  reservations reservation[]; entries ledger_entry[]; moved budget_spend[];
  budget jsonb;
BEGIN
  -- With a lock timeout, a locked account fails the batch (lock_not_available), and nothing is
  -- written.
  IF lock_timeout_ms IS NOT NULL THEN
    PERFORM set_config('lock_timeout', lock_timeout_ms || 'ms', true);
  END IF;
  accounts := ARRAY(SELECT l FROM account l
    WHERE organization_id = ANY (ARRAY(SELECT jsonb_array_elements(moves)->>'organizationId'))
    ORDER BY organization_id FOR UPDATE);
  -- Moves with the same id are applied one after the other, because the second must find the rows
  -- of the first.
  IF jsonb_array_length(moves) > 1
    AND (SELECT count(*) > count(DISTINCT x->>'id') FROM jsonb_array_elements(moves) AS x) THEN
    RETURN ledger_apply_singly(moves);
  END IF;
  FOR m IN
    SELECT x.position, x.move, x.move->>'verb' AS verb, x.move->>'organizationId' AS organization, r AS found,
      coalesce(r.budget_id, k.budget_of, k.id) AS budget_id, holder
    FROM jsonb_array_elements(moves) WITH ORDINALITY AS x(move, position)
    LEFT JOIN reservation r ON r.id = x.move->>'id'
    LEFT JOIN api_key k ON k.id = coalesce(x.move->'job'->>'keyId', x.move->'chat'->>'keyId')
    -- The key that has the limit of this move, if there is one.
    LEFT JOIN api_key holder ON holder.id = coalesce(r.budget_id, k.budget_of, k.id)
      AND holder.limit_micro IS NOT NULL AND (x.move->>'verb' = 'reserve' OR r.kind = 'chat')
    ORDER BY x.move->>'organizationId', x.move->>'id'
  LOOP
    IF a.organization_id IS DISTINCT FROM m.organization THEN
      a := accounts[place + 1];
      IF a.organization_id = m.organization THEN place := place + 1; ELSE a := NULL; END IF;
    END IF;
    budget := CASE WHEN (m.holder).id IS NOT NULL
      THEN budget_state(m.holder, coalesce((m.found).created_at, clock_timestamp()), moved) END;
    d := CASE m.verb
      WHEN 'reserve' THEN decide_reserve(a, m.found, m.move, budget)
      WHEN 'settle' THEN decide_settle(a, m.found, m.move, budget)
      WHEN 'refund' THEN decide_refund(a, m.found, m.move)
      WHEN 'grant' THEN decide_grant(a, m.found, m.move)
    END;
    answers[m.position] := d.answer;
    IF budget IS NOT NULL AND d.answer->>'verdict' = 'key_limit_exceeded' THEN
      PERFORM budget_note_refusal(m.holder);
    END IF;
    IF d.key IS NOT NULL THEN
      entries := entries || ROW(m.organization, a.sequence + 1, d.key, d.kind, (d.r).id,
        (d.a).posted - a.posted, (d.a).reserved - a.reserved, (d.a).posted, (d.a).reserved,
        m.move->>'actor', m.move->>'reason', clock_timestamp())::ledger_entry;
      IF m.verb = 'reserve' THEN d.r.budget_id := m.budget_id; END IF;
      IF (d.r).budget_id IS NOT NULL AND d.kind <> 'refund' THEN
        moved := moved || ROW((d.r).budget_id, ((d.r).created_at AT TIME ZONE 'UTC')::date,
          (d.a).reserved - a.reserved - ((d.a).posted - a.posted))::budget_spend;
      END IF;
      d.a.sequence := a.sequence + 1;
      a := d.a;
      accounts[place] := a;
      IF (d.r).id IS NOT NULL THEN reservations := reservations || d.r; END IF;
    END IF;
  END LOOP;
  UPDATE account w SET posted = n.posted, reserved = n.reserved, sequence = n.sequence,
    window_started_at = n.window_started_at, window_used = n.window_used
    FROM unnest(accounts) AS n
    WHERE w.organization_id = n.organization_id AND w.sequence <> n.sequence;
  -- Reservations are written before the entries, which refer to them.
  INSERT INTO reservation AS w SELECT * FROM unnest(reservations)
    ON CONFLICT (id) DO UPDATE SET state = excluded.state, reason = excluded.reason,
      settled_at = excluded.settled_at, charged = excluded.charged, refunded = excluded.refunded,
      model = excluded.model, provider = excluded.provider, input_tokens = excluded.input_tokens,
      output_tokens = excluded.output_tokens, cached_input_tokens = excluded.cached_input_tokens,
      cache_write_tokens = excluded.cache_write_tokens, reasoning_tokens = excluded.reasoning_tokens,
      counted_by = excluded.counted_by,
      loss_micro = excluded.loss_micro;
  INSERT INTO ledger_entry SELECT * FROM unnest(entries);
  IF moves @? '$[*].chat.metadata' THEN
    INSERT INTO tag (organization_id, name, value, created_at, id)
      SELECT r.organization_id, pair.key, pair.value, r.created_at, r.id
      FROM unnest(reservations) AS r, jsonb_each_text(r.metadata) AS pair ON CONFLICT DO NOTHING;
  END IF;
  INSERT INTO budget_spend AS b SELECT budget_id, day, sum(spent) FROM unnest(moved)
    GROUP BY budget_id, day HAVING sum(spent) <> 0
    ON CONFLICT (budget_id, day) DO UPDATE SET spent = b.spent + excluded.spent;
  IF moves @? '$[*].job' THEN PERFORM ledger_write_jobs(moves, answers); END IF;
  RETURN to_json(answers);
END $$;

CREATE FUNCTION ledger_apply_singly(moves jsonb) RETURNS json LANGUAGE plpgsql AS $$
DECLARE answers json[] := array_fill(NULL::json, ARRAY[jsonb_array_length(moves)]); m record;
BEGIN
  FOR m IN
    SELECT x.position, x.move FROM jsonb_array_elements(moves) WITH ORDINALITY AS x(move, position)
    ORDER BY x.move->>'organizationId', x.move->>'id', x.position
  LOOP
    answers[m.position] := ledger_apply(jsonb_build_array(m.move))->0;
  END LOOP;
  RETURN to_json(answers);
END $$;

-- Writes the jobs of a batch: a row for each reservation, the end of each settled job. Notifies
-- listeners of both and of rejected reservations (api/studio/job-updates.ts).
CREATE FUNCTION ledger_write_jobs(moves jsonb, answers json[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF moves @? '$[*] ? (@.verb == "reserve").job' THEN
    INSERT INTO job (id, organization_id, key_id, type, model, provider, request, plan, request_id,
        metadata, created_at, deadline_at)
      SELECT m->>'id', m->>'organizationId', j->>'keyId', j->>'type', j->>'model', j->>'provider',
        j->'request', j->'plan', j->>'requestId', j->'metadata', (answer->>'createdAt')::timestamptz,
        (j->>'deadlineAt')::timestamptz
      FROM ROWS FROM (jsonb_array_elements(moves), unnest(answers)) AS x(m, answer),
        LATERAL (SELECT m->'job' AS j) AS fields
      WHERE j IS NOT NULL AND answer->>'verdict' = 'reserved' AND answer->>'repeated' = 'false';
  END IF;
  IF moves @? '$[*] ? (@.verb == "settle").job' THEN
    UPDATE job SET status = j->>'status', outputs = nullif(j->'outputs', 'null'),
        error = nullif(j->'error', 'null'), completed_at = r.settled_at, verifying = false,
        plan = NULL
      FROM ROWS FROM (jsonb_array_elements(moves), unnest(answers)) AS x(m, answer)
      JOIN reservation r ON r.id = m->>'id', LATERAL (SELECT m->'job' AS j) AS fields
      WHERE j IS NOT NULL AND answer->>'verdict' = 'settled' AND job.id = r.id;
    INSERT INTO artifact (storage_key, job_id, organization_id, content_type, size_bytes, sha256)
      SELECT f."storageKey", m->>'id', m->>'organizationId', f."contentType", f."sizeBytes", f.sha256
      FROM ROWS FROM (jsonb_array_elements(moves), unnest(answers)) AS x(m, answer),
        jsonb_to_recordset(m->'job'->'artifacts') AS f(
          "storageKey" text, "contentType" text, "sizeBytes" bigint, sha256 text)
      WHERE answer->>'verdict' = 'settled';
  END IF;
  PERFORM pg_notify('studio_job', (CASE
        WHEN answer->>'verdict' = 'settled' THEN '{"event": "done"}'
        WHEN answer->>'repeated' = 'false' THEN '{"event": "reserved"}'
        ELSE jsonb_build_object('event', 'refused', 'refusal', answer)
      END || jsonb_build_object('id', m->>'id', 'organizationId', m->>'organizationId'))::text)
    FROM ROWS FROM (jsonb_array_elements(moves), unnest(answers)) AS x(m, answer)
    -- Listeners were notified of a repeated move before. An answer without `required` is not a
    -- rejection (jobs/ledger-verdicts.ts).
    WHERE m ? 'job' AND (answer->>'verdict' = 'settled' OR answer->>'repeated' = 'false'
      OR answer->>'required' IS NOT NULL);
END $$;
