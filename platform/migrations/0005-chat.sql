-- Chat: reservations of kind 'chat' in the same ledger, each with one row that says who asked for what
-- and how far it got. Chat runs without a workflow, so this row is what a crash of the API leaves
-- behind: the sweeper charges the last checkpoint.

CREATE TABLE chat_request (
  id text PRIMARY KEY REFERENCES reservation,
  organization_id text NOT NULL REFERENCES organization,
  key_id text NOT NULL REFERENCES api_key,
  model text NOT NULL,
  provider text NOT NULL,
  streamed boolean NOT NULL,
  request_id text NOT NULL,
  -- Tokens of the last checkpoint until the reservation is settled, then the tokens charged for.
  input_tokens bigint NOT NULL DEFAULT 0 CHECK (input_tokens >= 0),
  output_tokens bigint NOT NULL DEFAULT 0 CHECK (output_tokens >= 0),
  -- Who counted: the provider, or we, from what was relayed. Null while running and when released.
  counted_by text CHECK (counted_by IN ('provider', 'gateway')),
  -- The price of what had been delivered at the last checkpoint, in micro-credits.
  checkpoint_micro bigint NOT NULL DEFAULT 0 CHECK (checkpoint_micro >= 0),
  checkpoint_at timestamptz,
  created_at timestamptz NOT NULL
) WITH (fillfactor = 80);
CREATE INDEX chat_request_of_organization ON chat_request (organization_id, created_at DESC, id DESC);

-- {organizationId, id, amountMin, amountMax, ttlMs, chat: {keyId, model, provider, streamed, requestId}}
-- Reserves as much of amountMax as is there, never less than amountMin: a caller who names no
-- max_tokens gets the longest answer that the balance can pay.
CREATE FUNCTION chat_reserve(move jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE
  available bigint; price bigint; answer jsonb; c jsonb := move->'chat';
BEGIN
  SELECT posted - reserved INTO available FROM account
    WHERE organization_id = move->>'organizationId' FOR UPDATE;
  IF NOT FOUND THEN RETURN jsonb_build_object('verdict', 'no_account'); END IF;
  price := greatest((move->>'amountMin')::bigint, least((move->>'amountMax')::bigint, available));
  answer := ledger_reserve(move || jsonb_build_object('kind', 'chat', 'amount', price));
  IF answer->>'verdict' = 'reserved' AND NOT (answer->>'repeated')::boolean THEN
    INSERT INTO chat_request (id, organization_id, key_id, model, provider, streamed, request_id, created_at)
      VALUES (move->>'id', move->>'organizationId', c->>'keyId', c->>'model', c->>'provider',
        (c->>'streamed')::boolean, c->>'requestId', (answer->>'createdAt')::timestamptz);
  END IF;
  RETURN answer || jsonb_build_object('amount', price);
END $$;

-- {organizationId, id, to, amount, reason, inputTokens, outputTokens, countedBy}
CREATE FUNCTION chat_settle(move jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
DECLARE answer jsonb := ledger_settle(move);
BEGIN
  IF answer->>'verdict' = 'settled' THEN
    UPDATE chat_request SET input_tokens = (move->>'inputTokens')::bigint,
      output_tokens = (move->>'outputTokens')::bigint, counted_by = move->>'countedBy'
      WHERE id = move->>'id';
  END IF;
  RETURN answer;
END $$;

-- A batch of chat_reserve and chat_settle: as ledger_apply, in the same order of locks.
CREATE FUNCTION chat_apply(moves jsonb) RETURNS jsonb LANGUAGE plpgsql AS $$
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
    END;
  END LOOP;
  RETURN to_jsonb(answers);
END $$;

-- [{id, inputTokens, outputTokens, amount}]: records how far running chats have got and keeps the
-- sweeper away. A reservation that is being settled right now is locked, and needs no checkpoint.
CREATE FUNCTION chat_checkpoint(progress jsonb, ttl interval) RETURNS integer LANGUAGE sql AS $$
  WITH running AS (
    SELECT r.id, p.input, p.output, p.amount
      FROM reservation r
      JOIN jsonb_to_recordset(progress) AS p(id text, input bigint, output bigint, amount bigint)
        USING (id)
      WHERE r.state = 'reserved'
      FOR UPDATE OF r SKIP LOCKED
  ), extended AS (
    UPDATE reservation r SET expires_at = clock_timestamp() + ttl FROM running WHERE r.id = running.id
  ), recorded AS (
    UPDATE chat_request c SET input_tokens = running.input, output_tokens = running.output,
      checkpoint_micro = running.amount, checkpoint_at = clock_timestamp()
      FROM running WHERE c.id = running.id
      RETURNING 1
  )
  SELECT count(*)::integer FROM recorded
$$;

-- Settles chats whose API is gone: charges the last checkpoint, releases when there is none. Whether
-- one is still expired is decided under the account's lock: its API may have come back just now.
CREATE FUNCTION chat_sweep(count_max integer) RETURNS TABLE (id text, state text, charged bigint)
LANGUAGE plpgsql AS $$
DECLARE due record; cost bigint; answer jsonb;
BEGIN
  FOR due IN
    SELECT r.id, r.organization_id FROM reservation r
      WHERE r.state = 'reserved' AND r.kind = 'chat' AND r.expires_at < clock_timestamp()
      ORDER BY r.organization_id, r.id LIMIT count_max
  LOOP
    PERFORM FROM account a WHERE a.organization_id = due.organization_id FOR UPDATE;
    SELECT least(coalesce(c.checkpoint_micro, 0), r.amount) INTO cost
      FROM reservation r LEFT JOIN chat_request c USING (id)
      WHERE r.id = due.id AND r.state = 'reserved' AND r.expires_at < clock_timestamp()
      FOR UPDATE OF r;
    CONTINUE WHEN NOT FOUND;
    answer := ledger_settle(jsonb_build_object('organizationId', due.organization_id, 'id', due.id,
      'to', CASE WHEN cost > 0 THEN 'charged' ELSE 'released' END, 'amount', cost,
      'reason', 'CHAT_LOST'));
    UPDATE chat_request c SET counted_by = 'gateway' WHERE c.id = due.id AND cost > 0;
    UPDATE chat_request c SET input_tokens = 0, output_tokens = 0 WHERE c.id = due.id AND cost = 0;
    RETURN QUERY SELECT due.id, answer->>'state', (answer->>'charged')::bigint;
  END LOOP;
END $$;
