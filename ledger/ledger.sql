-- Applies ledger operations. A ledger operation is one change of an account: reserve, settle,
-- refund or grant. ledger_apply applies a batch of them in one round trip and one commit: it locks
-- the accounts, decides each operation in memory with the decide_… function of its verb
-- (ledger-decisions.sql), and then writes each table once.

-- Applies a batch of ledger operations and returns their results in the same order. The accounts
-- are locked in the order of their organization ids, so that two batches cannot deadlock. The
-- reservations are read after the accounts are locked. The planner settings make Postgres use
-- indexes, because the statistics of a growing table may be outdated.
CREATE FUNCTION ledger_apply(operations jsonb, lock_timeout_ms integer DEFAULT NULL) RETURNS json LANGUAGE plpgsql
SET plan_cache_mode = force_generic_plan
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
  answers json[] := array_fill(NULL::json, ARRAY[jsonb_array_length(operations)]);
  accounts account[]; a account; account_index integer := 0; o record; d record;
  reservations reservation[]; entries ledger_entry[]; spends budget_spend[];
  budgets jsonb; reached_jobs jsonb; end_user_id text; end_user_limits end_user; further text[]; refusal jsonb;
  state jsonb; one_spend budget_spend; further_budget text; token text;
BEGIN
  -- If an account is still locked by another transaction after this timeout, the batch fails with
  -- lock_not_available, and nothing is written.
  IF lock_timeout_ms IS NOT NULL THEN
    PERFORM set_config('lock_timeout', lock_timeout_ms || 'ms', true);
  END IF;
  accounts := ARRAY(SELECT l FROM account l
    WHERE organization_id = ANY (ARRAY(SELECT jsonb_array_elements(operations)->>'organizationId'))
    ORDER BY organization_id FOR UPDATE);
  -- If two operations of the batch have the same id, the operations are applied one at a time,
  -- because the second must read the rows that the first has written.
  IF jsonb_array_length(operations) > 1
    AND (SELECT count(*) > count(DISTINCT x->>'id') FROM jsonb_array_elements(operations) AS x) THEN
    RETURN ledger_apply_singly(operations);
  END IF;
  FOR o IN
    SELECT x.position, x.operation, x.operation->>'verb' AS verb, x.operation->>'organizationId' AS organization, r AS found,
      coalesce(r.budget_id, k.budget_of, k.id) AS budget_id, limited_key
    FROM jsonb_array_elements(operations) WITH ORDINALITY AS x(operation, position)
    LEFT JOIN reservation r ON r.id = x.operation->>'id'
    LEFT JOIN api_key k ON k.id = coalesce(x.operation->'job'->>'keyId', x.operation->'chat'->>'keyId')
    -- API key whose limits apply to the reservation; null if there are none.
    LEFT JOIN api_key limited_key ON limited_key.id = coalesce(k.budget_of, k.id)
      AND coalesce(limited_key.limit_micro, limited_key.jobs_max) IS NOT NULL AND x.operation->>'verb' = 'reserve'
    ORDER BY x.operation->>'organizationId', x.operation->>'id'
  LOOP
    IF a.organization_id IS DISTINCT FROM o.organization THEN
      a := accounts[account_index + 1];
      IF a.organization_id = o.organization THEN account_index := account_index + 1;
      ELSE a := NULL; END IF;
    END IF;
    budgets := CASE WHEN (o.limited_key).limit_micro IS NOT NULL
      THEN jsonb_build_array(key_budget_state(o.limited_key, spends)) END;
    end_user_id := CASE WHEN o.verb = 'reserve' THEN end_user_of(o.operation) END;
    further := NULL; refusal := NULL; state := NULL; token := NULL;
    IF end_user_id IS NOT NULL THEN
      further := further_budgets(o.organization, end_user_id);
      end_user_limits := limits_of_end_user(o.organization, end_user_id);
      state := end_user_budget_state(end_user_limits, further[1], spends);
      IF state IS NOT NULL THEN budgets := coalesce(budgets, '[]') || state; END IF;
      refusal := refuse_end_user(end_user_limits, further[1], o.operation, (o.found).id IS NOT NULL);
      token := token_of(o.operation);
      IF token IS NOT NULL THEN budgets := coalesce(budgets, '[]') || coalesce(token_budget(token), '[]'); END IF;
    END IF;
    reached_jobs := CASE WHEN o.verb = 'reserve' AND (o.operation->>'kind' = 'studio' OR o.operation ? 'job')
        AND coalesce(a.jobs_max, (o.limited_key).jobs_max) IS NOT NULL
      THEN reached_jobs_limit(a, o.limited_key, reservations) END;
    d := CASE o.verb
      WHEN 'reserve' THEN decide_reserve(a, o.found, o.operation, budgets, reached_jobs, refusal)
      WHEN 'settle' THEN decide_settle(a, o.found, o.operation)
      WHEN 'refund' THEN decide_refund(a, o.found, o.operation)
      WHEN 'grant' THEN decide_grant(a, o.found, o.operation)
    END;
    answers[o.position] := d.answer;
    IF budgets IS NOT NULL AND d.answer->>'verdict' = 'key_limit_exceeded' THEN
      PERFORM record_budget_rejection(o.limited_key);
    END IF;
    IF state IS NOT NULL THEN PERFORM mark_end_user(o.organization, end_user_id, state, d.answer); END IF;
    IF d.key IS NOT NULL THEN
      entries := entries || ROW(o.organization, a.sequence + 1, d.key, d.kind, (d.r).id,
        (d.a).posted - a.posted, (d.a).reserved - a.reserved, (d.a).posted, (d.a).reserved,
        o.operation->>'actor', o.operation->>'reason', clock_timestamp(), (d.r).price_rows)::ledger_entry;
      IF o.verb = 'reserve' THEN d.r.budget_id := o.budget_id; d.r.further_budgets := further; d.r.token_id := token; END IF;
      IF (d.r).token_id IS NOT NULL AND d.kind <> 'refund' THEN
        UPDATE browser_token SET spent_micro = spent_micro + (d.a).reserved - a.reserved - ((d.a).posted - a.posted)
          WHERE id = (d.r).token_id;
      END IF;
      IF (d.r).budget_id IS NOT NULL AND d.kind <> 'refund' THEN
        one_spend := ROW((d.r).budget_id, ((d.r).created_at AT TIME ZONE 'UTC')::date,
          (d.a).reserved - a.reserved - ((d.a).posted - a.posted))::budget_spend;
        spends := spends || one_spend;
        FOREACH further_budget IN ARRAY coalesce((d.r).further_budgets, '{}') LOOP
          one_spend.budget_id := further_budget; spends := spends || one_spend;
        END LOOP;
      END IF;
      d.a.sequence := a.sequence + 1;
      a := d.a;
      accounts[account_index] := a;
      IF (d.r).id IS NOT NULL THEN reservations := reservations || d.r; END IF;
    END IF;
  END LOOP;
  UPDATE account w SET posted = n.posted, reserved = n.reserved, sequence = n.sequence,
    window_started_at = n.window_started_at, window_used = n.window_used
    FROM unnest(accounts) AS n
    WHERE w.organization_id = n.organization_id AND w.sequence <> n.sequence;
  -- Reservations are inserted before the ledger entries, which have a foreign key to them.
  INSERT INTO reservation AS w SELECT * FROM unnest(reservations)
    ON CONFLICT (id) DO UPDATE SET state = excluded.state, reason = excluded.reason,
      settled_at = excluded.settled_at, charged = excluded.charged, refunded = excluded.refunded,
      model = excluded.model, provider = excluded.provider, input_tokens = excluded.input_tokens,
      output_tokens = excluded.output_tokens, cached_input_tokens = excluded.cached_input_tokens,
      cache_write_tokens = excluded.cache_write_tokens, reasoning_tokens = excluded.reasoning_tokens,
      counted_by = excluded.counted_by, first_token_ms = excluded.first_token_ms, error_code = excluded.error_code,
      cost = excluded.cost, price_rows = excluded.price_rows;
  INSERT INTO ledger_entry SELECT * FROM unnest(entries);
  IF operations @? '$[*].chat.metadata' THEN
    INSERT INTO metadata_pair (organization_id, name, value, created_at, id)
      SELECT r.organization_id, pair.key, pair.value, r.created_at, r.id
      FROM unnest(reservations) AS r, jsonb_each_text(r.metadata) AS pair ON CONFLICT DO NOTHING;
  END IF;
  -- A refund changes the sums of the day on which its job or chat began (usage-days.sql).
  IF operations @? '$[*] ? (@.verb == "refund")' THEN
    INSERT INTO usage_closed_day
      SELECT DISTINCT e.organization_id, (r.created_at AT TIME ZONE 'UTC')::date, true, true
      FROM unnest(entries) AS e JOIN unnest(reservations) AS r ON r.id = e.reservation_id WHERE e.kind = 'refund'
      ON CONFLICT (organization_id, day) DO UPDATE SET stale = true;
  END IF;
  INSERT INTO budget_spend AS b SELECT budget_id, day, sum(spent) FROM unnest(spends)
    GROUP BY budget_id, day HAVING sum(spent) <> 0
    ON CONFLICT (budget_id, day) DO UPDATE SET spent = b.spent + excluded.spent;
  IF operations @? '$[*].job' THEN PERFORM ledger_write_jobs(operations, answers); END IF;
  IF operations @? '$[*] ? (@.verb == "settle").item' THEN PERFORM bulk_end_chats(operations, answers); END IF;
  RETURN to_json(answers);
END $$;

-- Applies ledger operations one at a time, so that each reads the rows that earlier ones have
-- written.
CREATE FUNCTION ledger_apply_singly(operations jsonb) RETURNS json LANGUAGE plpgsql AS $$
DECLARE answers json[] := array_fill(NULL::json, ARRAY[jsonb_array_length(operations)]); o record;
BEGIN
  FOR o IN
    SELECT x.position, x.operation FROM jsonb_array_elements(operations) WITH ORDINALITY AS x(operation, position)
    ORDER BY x.operation->>'organizationId', x.operation->>'id', x.position
  LOOP
    answers[o.position] := ledger_apply(jsonb_build_array(o.operation))->0;
  END LOOP;
  RETURN to_json(answers);
END $$;
