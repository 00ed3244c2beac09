-- Chats: moves of the ledger, checkpoints, and the sweep of what a crash left.

-- Writes the chat requests of a batch of moves: a row for each reservation, then the tokens and the loss of each settlement.
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
        loss_micro = (answer->>'loss')::bigint,
        -- The model that was called last, if the request names several.
        model = coalesce(m#>>'{served,model}', model),
        provider = coalesce(m#>>'{served,provider}', provider)
      FROM ROWS FROM (jsonb_array_elements(moves), unnest(answers)) AS x(m, answer)
      WHERE answer->>'verdict' = 'settled' AND id = m->>'id';
  END IF;
END $$;

-- Records the progress of running chats, [{id, inputTokens, outputTokens, amount, ttlMs, served: {model,
-- provider}}], and extends
-- their reservations, so that the sweeper does not settle them. Reservations that are being settled are locked, and skipped.
CREATE FUNCTION chat_checkpoint(progress jsonb) RETURNS void LANGUAGE sql AS $$
  WITH running AS (
    SELECT r.id, p."inputTokens", p."outputTokens", p.amount, p."ttlMs", p.served
      FROM reservation r
      JOIN jsonb_to_recordset(progress) AS p(id text, "inputTokens" bigint, "outputTokens" bigint,
        amount bigint, "ttlMs" bigint, served jsonb) USING (id)
      WHERE r.state = 'reserved'
      FOR UPDATE OF r SKIP LOCKED
  ), extended AS (
    UPDATE reservation r
      SET expires_at = clock_timestamp() + "ttlMs" * interval '1 millisecond'
      FROM running WHERE r.id = running.id
  )
  UPDATE chat_request c SET input_tokens = "inputTokens", output_tokens = "outputTokens",
    checkpoint_micro = amount, checkpoint_at = clock_timestamp(),
    model = coalesce(served->>'model', c.model), provider = coalesce(served->>'provider', c.provider)
    FROM running WHERE c.id = running.id
$$;

-- Settles chats whose process is gone: charges the amount of the last checkpoint, or releases. Expiry is checked again
-- under the lock of the account, because the process may have recorded progress meanwhile.
CREATE FUNCTION chat_sweep(count_max integer) RETURNS TABLE (id text, state text, charged bigint)
LANGUAGE plpgsql AS $$
DECLARE due record; held reservation; c chat_request; move jsonb; answer json;
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
    move := jsonb_build_object('verb', 'settle', 'amount', c.checkpoint_micro) || CASE WHEN c.checkpoint_micro > 0
      THEN jsonb_build_object('to', 'charged', 'inputTokens', c.input_tokens,
        'outputTokens', c.output_tokens, 'countedBy', 'gateway')
      ELSE '{"to": "released", "inputTokens": 0, "outputTokens": 0, "countedBy": null}' END;
    answer := ledger_apply(jsonb_build_array(move || jsonb_build_object(
      'organizationId', due.organization_id, 'id', due.id, 'reason', 'CHAT_LOST')))->0;
    RETURN QUERY SELECT due.id, answer->>'state', (answer->>'charged')::bigint;
  END LOOP;
END $$;
