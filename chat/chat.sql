-- Checkpoints of running chats, and settlement of chats after a crash.

-- Records the progress of running chats and extends their reservations, so that the sweeper does
-- not settle them. Skips reservations that are locked because they are being settled.
-- progress: [{id, model, provider, inputTokens, outputTokens, amount, costMicro, priceRows, ttlMs}]. Processes of
-- earlier versions send neither costs nor rows.
CREATE FUNCTION chat_checkpoint(progress jsonb) RETURNS void LANGUAGE sql AS $$
  WITH running AS (
    SELECT p.* FROM reservation r JOIN jsonb_to_recordset(progress) AS p(id text, model text,
        provider text, "inputTokens" bigint, "outputTokens" bigint, amount bigint, "costMicro" bigint, "priceRows" text[],
        "ttlMs" bigint) USING (id)
      WHERE r.state = 'reserved' FOR UPDATE OF r SKIP LOCKED
  )
  UPDATE reservation r SET model = n.model, provider = n.provider, input_tokens = n."inputTokens",
    output_tokens = n."outputTokens", checkpoint_micro = n.amount,
    cost = n."costMicro", price_rows = nullif(coalesce(n."priceRows", r.price_rows), '{}'),
    expires_at = clock_timestamp() + n."ttlMs" * interval '1 millisecond'
    FROM running n WHERE r.id = n.id
$$;

-- Settles the chats of crashed processes: charges the amount of the last checkpoint, or releases
-- the credits if there is no checkpoint. Chat jobs, which have the ids of jobs, are settled by their workflows. After locking the account, checks again whether the
-- reservation has expired, because the process may have recorded progress in the meantime.
CREATE FUNCTION chat_sweep(count_max integer) RETURNS TABLE (id text, state text, charged bigint)
LANGUAGE plpgsql AS $$
DECLARE due record; c reservation; operation jsonb; answer json;
BEGIN
  FOR due IN
    SELECT r.id, r.organization_id FROM reservation r
      WHERE r.state = 'reserved' AND r.kind = 'chat' AND r.id NOT LIKE 'job\_%' AND r.expires_at < clock_timestamp()
      ORDER BY r.organization_id, r.id LIMIT count_max
  LOOP
    PERFORM FROM account a WHERE a.organization_id = due.organization_id FOR UPDATE;
    SELECT r.* INTO c FROM reservation r
      WHERE r.id = due.id AND r.state = 'reserved' AND r.expires_at < clock_timestamp() FOR UPDATE;
    CONTINUE WHEN NOT FOUND;
    operation := jsonb_build_object('verb', 'settle', 'amount', c.checkpoint_micro, 'cost', c.cost,
      'priceRows', c.price_rows) || CASE WHEN c.checkpoint_micro > 0
      THEN jsonb_build_object('to', 'charged', 'inputTokens', c.input_tokens,
        'outputTokens', c.output_tokens, 'countedBy', 'gateway')
      ELSE '{"to": "released", "inputTokens": 0, "outputTokens": 0, "countedBy": null}' END;
    answer := ledger_apply(jsonb_build_array(operation || jsonb_build_object(
      'organizationId', due.organization_id, 'id', due.id, 'reason', 'CHAT_LOST')))->0;
    RETURN QUERY SELECT due.id, answer->>'state', (answer->>'charged')::bigint;
  END LOOP;
END $$;
