-- Chats: moves of the ledger, checkpoints, and the sweep of what a crash left.

-- {organizationId, id, amount}: raises the open reservation of a chat to this amount, or as far as
-- balance and budget go: only the provider can count some inputs, and what it counted is charged. Answers what is
-- reserved then; 0: there is no open one.
CREATE FUNCTION decide_raise(INOUT a account, INOUT r reservation, move jsonb, budget jsonb,
  OUT answer json, OUT key text, OUT kind text) LANGUAGE plpgsql AS $$
DECLARE more bigint := least((move->>'amount')::bigint - r.amount, a.posted - a.reserved,
  (budget->>'limit')::bigint - (budget->>'used')::bigint);
BEGIN
  IF (r.organization_id = a.organization_id AND r.state = 'reserved') IS NOT TRUE THEN
    r.amount := 0;
  ELSIF more > 0 THEN
    a.reserved := a.reserved + more; r.amount := r.amount + more;
    key := 'raise:' || r.id || ':' || (a.sequence + 1); kind := 'reserve';
  END IF;
  answer := json_build_object('verdict', 'raised', 'amount', r.amount);
END $$;

-- Writes the requests of a batch of moves: who asked for what, then how many tokens were charged.
CREATE FUNCTION ledger_write_chats(moves jsonb, answers json[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF moves @? '$[*].chat' THEN
    INSERT INTO chat_request (id, organization_id, key_id, model, provider, streamed, request_id,
        metadata, created_at)
      SELECT m->>'id', m->>'organizationId', c->>'keyId', c->>'model', c->>'provider',
        (c->>'streamed')::boolean, c->>'requestId', c->'metadata', (answer->>'createdAt')::timestamptz
      FROM ROWS FROM (jsonb_array_elements(moves), unnest(answers)) AS x(m, answer),
        LATERAL (SELECT m->'chat' AS c) AS told
      WHERE answer->>'verdict' = 'reserved' AND answer->>'repeated' = 'false';
  END IF;
  IF moves @? '$[*].countedBy' THEN
    UPDATE chat_request SET input_tokens = (m->>'inputTokens')::bigint,
        output_tokens = (m->>'outputTokens')::bigint, counted_by = m->>'countedBy',
        -- Of several models, the one that was asked last.
        model = coalesce(m#>>'{served,model}', model),
        provider = coalesce(m#>>'{served,provider}', provider)
      FROM ROWS FROM (jsonb_array_elements(moves), unnest(answers)) AS x(m, answer)
      WHERE answer->>'verdict' = 'settled' AND id = m->>'id';
  END IF;
END $$;

-- [{id, inputTokens, outputTokens, amount, served: {model, provider}}]: records how far running chats have got and keeps the
-- sweeper away. A reservation that is being settled right now is locked, and needs no checkpoint.
CREATE FUNCTION chat_checkpoint(progress jsonb, ttl interval) RETURNS void LANGUAGE sql AS $$
  WITH running AS (
    SELECT r.id, p."inputTokens", p."outputTokens", p.amount, p.served
      FROM reservation r
      JOIN jsonb_to_recordset(progress) AS p(id text, "inputTokens" bigint, "outputTokens" bigint,
        amount bigint, served jsonb) USING (id)
      WHERE r.state = 'reserved'
      FOR UPDATE OF r SKIP LOCKED
  ), extended AS (
    UPDATE reservation r SET expires_at = clock_timestamp() + ttl FROM running WHERE r.id = running.id
  )
  UPDATE chat_request c SET input_tokens = "inputTokens", output_tokens = "outputTokens",
    checkpoint_micro = amount, checkpoint_at = clock_timestamp(),
    model = coalesce(served->>'model', c.model), provider = coalesce(served->>'provider', c.provider)
    FROM running WHERE c.id = running.id
$$;

-- Settles chats whose API is gone: charges what was recorded last, gives the rest back. Whether
-- one is still expired is decided under the account's lock: its API may have come back just now.
CREATE FUNCTION chat_sweep(count_max integer) RETURNS TABLE (id text, state text, charged bigint)
LANGUAGE plpgsql AS $$
DECLARE due record; held reservation; c chat_request; spent bigint; move jsonb; answer json;
BEGIN
  FOR due IN
    SELECT r.id, r.organization_id FROM reservation r
      WHERE r.state = 'reserved' AND r.kind = 'chat' AND r.expires_at < clock_timestamp()
      ORDER BY r.organization_id, r.id LIMIT count_max
  LOOP
    PERFORM FROM account a WHERE a.organization_id = due.organization_id FOR UPDATE;
    SELECT r.* INTO held FROM reservation r
      WHERE r.id = due.id AND r.state = 'reserved' AND r.expires_at < clock_timestamp() FOR UPDATE;
    CONTINUE WHEN NOT FOUND;
    SELECT * INTO c FROM chat_request q WHERE q.id = due.id;
    spent := least(coalesce(c.checkpoint_micro, 0), held.amount);
    move := jsonb_build_object('verb', 'settle', 'amount', spent) || CASE WHEN spent > 0
      THEN jsonb_build_object('to', 'charged', 'inputTokens', c.input_tokens,
        'outputTokens', c.output_tokens, 'countedBy', 'gateway')
      ELSE '{"to": "released", "inputTokens": 0, "outputTokens": 0, "countedBy": null}' END;
    answer := ledger_apply(jsonb_build_array(move || jsonb_build_object(
      'organizationId', due.organization_id, 'id', due.id, 'reason', 'CHAT_LOST')))->0;
    RETURN QUERY SELECT due.id, answer->>'state', spent;
  END LOOP;
END $$;

-- Notes a chat that was abandoned. Answers how many of its key there were in that time, what they lost, and what was
-- charged for the key's other chats meanwhile (the last 2,000). What is older is forgotten.
CREATE FUNCTION chat_abandon(chat text, key text, lost_micro bigint, period interval) RETURNS jsonb
LANGUAGE plpgsql AS $$
DECLARE since timestamptz := clock_timestamp() - period; paid bigint; ended bigint; lost bigint;
BEGIN
  DELETE FROM abandoned_chat WHERE key_id = key AND created_at < since;
  INSERT INTO abandoned_chat (id, key_id, lost) VALUES (chat, key, lost_micro) ON CONFLICT DO NOTHING;
  SELECT count(*), sum(a.lost) INTO ended, lost FROM abandoned_chat a WHERE a.key_id = key;
  SELECT coalesce(sum(charged), 0) INTO paid FROM (
    SELECT r.charged FROM chat_request c JOIN reservation r USING (id)
      WHERE c.key_id = key AND c.created_at > since ORDER BY c.created_at DESC LIMIT 2000) AS chats;
  RETURN jsonb_build_object('abandoned', ended, 'lostMicro', lost, 'paidMicro', paid);
END $$;
