-- Leased budgets: chat without a round trip per request. A lease is a reservation that an API process draws
-- chats from without asking. Every move of it books the chats that ended, in one ledger entry, and sets what is
-- held from then on. What was spent is charged to its chats, never to the lease: it ends as released.

-- {organizationId, id, hold, ttlMs, reason, spent?, chats: [{id, keyId, model, provider, streamed, requestId, state,
-- amount, reason, input, output, countedBy, metadata?, ageMs}]}
-- Books the chats and holds `hold` from then on, if a quarter of the balance is as much: what is left
-- stays free for reservations of other processes. Zero ends the lease. Repeating a move changes nothing.
CREATE FUNCTION decide_lease(INOUT a account, INOUT r reservation, move jsonb,
  OUT answer json, OUT key text, OUT kind text) LANGUAGE plpgsql AS $$
DECLARE
  at timestamptz := clock_timestamp(); spent bigint; unspent bigint; held bigint;
  ends timestamptz := at + (move->>'ttlMs')::bigint * interval '1 millisecond';
  hold bigint := move->>'hold';
BEGIN
  IF a.organization_id IS NULL THEN
    answer := '{"verdict": "no_account"}'; RETURN;
  ELSIF r.id IS NULL AND hold > 0 THEN
    r.id := move->>'id'; r.organization_id := a.organization_id; r.kind := 'lease'; r.amount := 0;
    r.state := 'reserved'; r.created_at := at; r.expires_at := ends;
  ELSIF (r.organization_id = a.organization_id AND r.state = 'reserved') IS NOT TRUE THEN
    answer := '{"verdict": "lease_lost"}'; RETURN;
  ELSE
    UPDATE reservation SET expires_at = ends WHERE id = r.id;
  END IF;
  spent := coalesce((move->>'spent')::bigint, book_leased_chats(r, move->'chats'));
  unspent := r.amount - spent;
  IF unspent < 0 THEN RAISE EXCEPTION 'lease % is overspent by %', r.id, -unspent; END IF;
  held := least(hold, greatest(unspent, (a.posted - a.reserved + unspent) / 4));
  kind := CASE WHEN spent > 0 THEN 'charge' WHEN held > r.amount THEN 'reserve' ELSE 'release' END;
  a.posted := a.posted - spent; a.reserved := a.reserved - r.amount + held;
  IF held = 0 AND r.amount > 0 THEN
    key := 'settle:' || r.id;
    r.state := 'released'; r.reason := move->>'reason'; r.settled_at := at;
  ELSIF spent <> 0 OR held <> r.amount THEN
    key := 'lease:' || r.id || ':' || (a.sequence + 1);
    r.amount := held;
  END IF;
  answer := json_build_object('verdict', 'held', 'held', held);
END $$;

-- Writes chats of a lease. Answers what those cost that were not known to have ended before.
CREATE FUNCTION book_leased_chats(lease reservation, chats jsonb) RETURNS bigint LANGUAGE sql AS $$
  WITH told AS (
    INSERT INTO leased_chat AS l (id, lease_id, organization_id, key_id, model, provider, streamed,
        request_id, state, amount, reason, input_tokens, output_tokens, counted_by, metadata, created_at)
      SELECT c.id, lease.id, lease.organization_id, c."keyId", c.model, c.provider, c.streamed,
        c."requestId", c.state, c.amount, c.reason, c.input, c.output, c."countedBy", c.metadata,
        clock_timestamp() - c."ageMs" * interval '1 millisecond'
      FROM jsonb_to_recordset(chats) AS c(id text, "keyId" text, model text, provider text,
        streamed boolean, "requestId" text, state text, amount bigint, reason text, input bigint,
        output bigint, "countedBy" text, metadata jsonb, "ageMs" float8)
      ON CONFLICT (id) DO UPDATE SET state = excluded.state, amount = excluded.amount,
        model = excluded.model, provider = excluded.provider,
        reason = excluded.reason, input_tokens = excluded.input_tokens,
        output_tokens = excluded.output_tokens, counted_by = excluded.counted_by
        WHERE l.state = 'reserved'
      RETURNING l.key_id, l.created_at, l.state, l.amount
  ), charged AS (
    SELECT coalesce(sum(amount), 0)::bigint AS spent,
        jsonb_agg(jsonb_build_object('key', key_id, 'at', created_at, 'amount', amount)) AS chats
      FROM told WHERE state = 'charged'
  )
  SELECT spent FROM charged, LATERAL budget_write_chats(chats)
$$;

-- Ends the running chats of a lease whose API is gone by their last checkpoints. Answers what they cost.
CREATE FUNCTION lose_leased_chats(lease text) RETURNS bigint LANGUAGE sql AS $$
  WITH lost AS (
    UPDATE leased_chat c SET reason = 'CHAT_LOST',
        state = CASE WHEN c.amount > 0 THEN 'charged' ELSE 'released' END,
        counted_by = CASE WHEN c.amount > 0 THEN 'gateway' END,
        input_tokens = CASE WHEN c.amount > 0 THEN c.input_tokens ELSE 0 END,
        output_tokens = CASE WHEN c.amount > 0 THEN c.output_tokens ELSE 0 END
      WHERE c.lease_id = lease AND c.state = 'reserved'
      RETURNING c.key_id, c.created_at, c.amount
  ), charged AS (
    SELECT coalesce(sum(amount), 0)::bigint AS spent,
        jsonb_agg(jsonb_build_object('key', key_id, 'at', created_at, 'amount', amount)) AS chats
      FROM lost
  )
  SELECT spent FROM charged, LATERAL budget_write_chats(chats)
$$;

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
