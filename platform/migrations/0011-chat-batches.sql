-- Chats of a whole batch at once, by the ledger of 0010. The functions for one move go.


-- Writes the requests of a batch of chats: who asked for what, then how many tokens were charged.
CREATE FUNCTION ledger_write_chats(moves jsonb, answers jsonb[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF moves @? '$[*].chat' THEN
    INSERT INTO chat_request (id, organization_id, key_id, model, provider, streamed, request_id,
        created_at)
      SELECT m->>'id', m->>'organizationId', c->>'keyId', c->>'model', c->>'provider',
        (c->>'streamed')::boolean, c->>'requestId', (answer->>'createdAt')::timestamptz
      FROM ROWS FROM (jsonb_array_elements(moves), unnest(answers)) AS x(m, answer),
        LATERAL (SELECT m->'chat' AS c) AS told
      WHERE answer @> '{"verdict": "reserved", "repeated": false}';
  END IF;
  IF moves @? '$[*] ? (@.verb == "settle")' THEN
    UPDATE chat_request SET input_tokens = (m->>'inputTokens')::bigint,
        output_tokens = (m->>'outputTokens')::bigint, counted_by = m->>'countedBy'
      FROM ROWS FROM (jsonb_array_elements(moves), unnest(answers)) AS x(m, answer)
      WHERE answer @> '{"verdict": "settled"}' AND id = m->>'id';
  END IF;
END $$;

-- A batch of chats and leases.
--   reserve {organizationId, id, amountMin, amountMax, ttlMs,
--     chat: {keyId, model, provider, streamed, requestId}}: as much of amountMax as is there, never less
--     than amountMin; a caller who names no max_tokens gets the longest answer that the balance can pay
--   settle as ledger_apply has it, with {inputTokens, outputTokens, countedBy}
--   lease as chat_lease_sync has it; leases are moved when the chats are
CREATE OR REPLACE FUNCTION chat_apply(moves jsonb) RETURNS jsonb LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE answers jsonb[] := array_fill(NULL::jsonb, ARRAY[jsonb_array_length(moves)]); m record;
BEGIN
  IF jsonb_path_exists(moves, '$[*] ? (@.verb != "lease")') THEN
    -- It locks the accounts of the leases, too.
    answers := ARRAY(SELECT jsonb_array_elements(ledger_apply(moves)));
    PERFORM ledger_write_chats(moves, answers);
  END IF;
  FOR m IN
    SELECT x.position, x.move FROM jsonb_array_elements(moves) WITH ORDINALITY AS x(move, position)
    WHERE x.move->>'verb' = 'lease'
    ORDER BY x.move->>'organizationId', x.move->>'id', x.position
  LOOP
    answers[m.position] := chat_lease_sync(m.move);
  END LOOP;
  RETURN to_jsonb(answers);
END $$;

-- As before, by ledger_apply.
CREATE OR REPLACE FUNCTION chat_sweep(count_max integer)
RETURNS TABLE (id text, state text, charged bigint) LANGUAGE plpgsql AS $$
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
    answer := ledger_apply(jsonb_build_array(jsonb_build_object('verb', 'settle',
      'organizationId', due.organization_id, 'id', due.id,
      'to', CASE WHEN cost > 0 THEN 'charged' ELSE 'released' END, 'amount', cost,
      'reason', 'CHAT_LOST')))->0;
    UPDATE chat_request c SET counted_by = 'gateway' WHERE c.id = due.id AND cost > 0;
    UPDATE chat_request c SET input_tokens = 0, output_tokens = 0 WHERE c.id = due.id AND cost = 0;
    RETURN QUERY SELECT due.id, answer->>'state', (answer->>'charged')::bigint;
  END LOOP;
END $$;

-- Nobody calls them any more.
DROP FUNCTION chat_reserve(jsonb);
DROP FUNCTION chat_settle(jsonb);
DROP FUNCTION ledger_reserve(jsonb);
DROP FUNCTION ledger_settle(jsonb);
DROP FUNCTION ledger_balance(account);
