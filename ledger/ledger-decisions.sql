-- Decides ledger operations: reserve → charge | release, refunds of charges, and grants.
--
-- Each function decide_… receives the account, the reservation with the id of the operation, and
-- the operation. The account or the reservation is null if it does not exist. The function returns:
--   answer: the result of the operation, with its amounts.
--   a, r: the changed account and the changed reservation.
--   key, kind: the idempotency key and the kind of the ledger entry. If `key` is null, the
--     operation changes nothing.
-- Ledger operations are idempotent by id. An operation that cannot be applied returns a result
-- instead of raising an error, so that the other operations of the batch are not affected.

CREATE FUNCTION ledger_window_end(started timestamptz) RETURNS timestamptz
  LANGUAGE sql IMMUTABLE RETURN started + interval '6 hours';

-- Returns the rows of the price book that an operation names; null if it names none.
CREATE FUNCTION ledger_price_rows(operation jsonb) RETURNS text[] LANGUAGE sql IMMUTABLE RETURN
  CASE WHEN jsonb_typeof(operation->'priceRows') = 'array' THEN ARRAY(SELECT jsonb_array_elements_text(operation->'priceRows')) END;

CREATE FUNCTION ledger_balance(a account) RETURNS json LANGUAGE sql STABLE RETURN
  json_build_object('posted', a.posted, 'reserved', a.reserved, 'available', a.posted - a.reserved);

-- Reserves credits.
-- Properties of a Studio operation: {organizationId, id, kind, ttlMs, amount, job?}.
-- Properties of a chat operation: {organizationId, id, kind, ttlMs, amountMin, amountExpected,
-- amountMax, freeDivisor, claim?, item?: true for an item of a bulk job, chat}. It reserves `amountMax`, but at most the free credits
-- divided by `freeDivisor`, so that one chat leaves credits for others, and then at least
-- `amountExpected`. It never reserves more than the free credits; with less than `amountMin`, it is
-- rejected. Free credits are the available ones that all budgets allow to spend.
-- `budgets` are the budgets with a limit (budgets.sql); null if there are none. `reached_jobs`
-- is the limit of open jobs that is reached, and `refusal` the rejection of the end user; null if there is none.
-- The balance is negative after charges beyond their reservations; then even a price of zero is
-- rejected.
CREATE FUNCTION decide_reserve(INOUT a account, INOUT r reservation, operation jsonb, budgets jsonb,
  reached_jobs jsonb DEFAULT NULL, refusal jsonb DEFAULT NULL, OUT answer json, OUT key text, OUT kind text) LANGUAGE plpgsql AS $$
DECLARE
  decided_at timestamptz := clock_timestamp();
  available bigint := a.posted - a.reserved;
  free bigint := available;
  price bigint;
  exceeded jsonb;
  is_studio boolean := operation->>'kind' = 'studio';
  chat jsonb := operation->'chat';
BEGIN
  IF budgets IS NOT NULL THEN
    free := least(free, (SELECT min((b->>'limit')::bigint - (b->>'used')::bigint) FROM jsonb_path_query(budgets, '$[*]') AS b));
  END IF;
  price := coalesce((operation->>'amount')::bigint, r.amount,
    greatest((operation->>'amountMin')::bigint, least((operation->>'amountMax')::bigint, free,
      greatest((operation->>'amountExpected')::bigint, free / (operation->>'freeDivisor')::bigint))));
  IF budgets IS NOT NULL THEN
    exceeded := (SELECT b FROM jsonb_path_query(budgets, '$[*]') AS b
      WHERE (b->>'limit')::bigint = 0 OR (b->>'used')::bigint + price > (b->>'limit')::bigint LIMIT 1);
  END IF;
  -- The first Studio reservation after the end of a six-hour window starts the next one. The start
  -- of a window is truncated to milliseconds, because responses show milliseconds.
  IF is_studio AND (decided_at < ledger_window_end(a.window_started_at)) IS NOT TRUE THEN
    a.window_started_at := date_trunc('milliseconds', decided_at); a.window_used := 0;
  END IF;
  IF a.organization_id IS NULL THEN
    answer := '{"verdict": "no_account"}';
  ELSIF operation ? 'claim' AND NOT holds_claim(a.organization_id, operation->'claim') THEN
    answer := '{"verdict": "claim_lost"}';
  ELSIF r.organization_id <> a.organization_id OR r.amount <> price THEN
    answer := '{"verdict": "mismatch"}';
  ELSIF r.id IS NOT NULL THEN
    answer := json_build_object('verdict', 'reserved', 'repeated', true, 'state', r.state,
      'amount', price, 'createdAt', r.created_at, 'balance', ledger_balance(a));
  ELSIF (operation @? '$.job.plan ? (@.inBulk == true)' OR operation ? 'item') AND NOT bulk_claim(operation->>'id') THEN
    answer := json_build_object('verdict', 'item_not_started', 'required', price);
  ELSIF refusal IS NOT NULL THEN
    answer := (refusal || jsonb_build_object('required', price))::json;
  ELSIF exceeded IS NOT NULL THEN
    answer := ('{"verdict": "key_limit_exceeded"}' || exceeded || jsonb_build_object('required', price))::json;
  ELSIF available < price THEN
    answer := json_build_object('verdict', 'insufficient_credits', 'required', price,
      'balance', ledger_balance(a));
  ELSIF is_studio AND price > a.window_limit THEN
    answer := json_build_object('verdict', 'window_limit_exceeded', 'required', price,
      'limit', a.window_limit, 'balance', ledger_balance(a));
  ELSIF is_studio AND a.window_used + price > a.window_limit THEN
    answer := json_build_object('verdict', 'window_exhausted', 'now', decided_at, 'required', price,
      'limit', a.window_limit, 'used', a.window_used,
      'resetAt', ledger_window_end(a.window_started_at), 'balance', ledger_balance(a));
  ELSIF reached_jobs IS NOT NULL THEN
    answer := (reached_jobs || jsonb_build_object('verdict', 'jobs_max_reached', 'required', price))::json;
  ELSE
    a.reserved := a.reserved + price;
    IF is_studio THEN
      a.window_used := a.window_used + price;
      r.window_started_at := a.window_started_at;
    ELSE
      r.key_id := chat->>'keyId'; r.model := chat->>'model'; r.provider := chat->>'provider';
      r.streamed := chat->'streamed'; r.request_id := chat->>'requestId'; r.metadata := chat->'metadata';
      r.embedding := chat->'embedding';
      r.input_tokens := 0; r.output_tokens := 0; r.checkpoint_micro := 0;
    END IF;
    r.price_rows := ledger_price_rows(operation);
    r.id := operation->>'id'; r.organization_id := a.organization_id; r.kind := operation->>'kind';
    r.amount := price; r.state := 'reserved'; r.created_at := decided_at;
    r.expires_at := decided_at + (operation->>'ttlMs')::bigint * interval '1 millisecond';
    key := 'reserve:' || r.id; kind := 'reserve';
    answer := json_build_object('verdict', 'reserved', 'repeated', false, 'state', 'reserved',
      'amount', price, 'createdAt', decided_at, 'balance', ledger_balance(a));
  END IF;
END $$;

-- Settles a reservation: charges or releases its credits. A charge and a release have the same
-- idempotency key, so that only one of them can happen.
-- Properties of a Studio operation: {organizationId, id, to: charged|released, amount?, reason,
-- job?: {status, outputs?, error?, artifacts?}}. Both have {cost?, priceRows?}: the price of a charge in the
-- catalog, and the rows of the price book that set it.
-- Properties of a chat operation: {organizationId, id, to, amount?, reason, inputTokens,
-- outputTokens, countedBy, model?, provider?, firstTokenMs?, errorCode?}. `model` and `provider` are those that were called
-- most recently.
-- The amount is charged in full, also beyond the reservation, and may make the balance negative:
-- balance and limits decide at the reservation only (docs/decisions/0010).
CREATE FUNCTION decide_settle(INOUT a account, INOUT r reservation, operation jsonb,
  OUT answer json, OUT key text, OUT kind text) LANGUAGE plpgsql AS $$
DECLARE
  is_charge boolean := operation->>'to' = 'charged';
  price bigint := CASE WHEN is_charge THEN (operation->>'amount')::bigint ELSE 0 END;
BEGIN
  IF (r.organization_id = a.organization_id) IS NOT TRUE THEN
    answer := '{"verdict": "not_reserved"}';
  ELSIF r.state <> 'reserved' THEN
    answer := json_build_object('verdict', 'already_settled', 'state', r.state,
      'charged', coalesce(r.charged, 0), 'balance', ledger_balance(a));
  ELSE
    a.posted := a.posted - price; a.reserved := a.reserved - r.amount;
    -- Unused credits are returned only to the six-hour window in which they were reserved.
    IF a.window_started_at = r.window_started_at THEN
      a.window_used := a.window_used - (r.amount - price);
    END IF;
    r.state := operation->>'to'; r.reason := operation->>'reason'; r.settled_at := clock_timestamp();
    IF is_charge THEN r.charged := price; END IF;
    r.cost := CASE WHEN is_charge THEN (operation->>'cost')::bigint END;
    -- Processes of earlier versions send no cost.
    IF operation ? 'cost' THEN r.price_rows := ledger_price_rows(operation); END IF;
    IF r.kind = 'chat' THEN
      r.input_tokens := operation->'inputTokens'; r.output_tokens := operation->'outputTokens';
      r.cached_input_tokens := operation->'cachedInputTokens'; r.cache_write_tokens := operation->'cacheWriteTokens';
      r.reasoning_tokens := operation->'reasoningTokens';
      r.counted_by := operation->>'countedBy';
      r.first_token_ms := operation->'firstTokenMs'; r.error_code := operation->>'errorCode';
      r.model := coalesce(operation->>'model', r.model); r.provider := coalesce(operation->>'provider', r.provider);
    END IF;
    key := 'settle:' || r.id; kind := CASE WHEN is_charge THEN 'charge' ELSE 'release' END;
    answer := json_build_object('verdict', 'settled', 'state', r.state, 'charged', price,
      'balance', ledger_balance(a));
  END IF;
END $$;

-- Refunds charged credits of a reservation.
-- Properties of the operation: {organizationId, id, refundId, amount?, actor, reason}. `amount`
-- defaults to everything that was charged and has not been refunded.
-- A refund does not change the six-hour window or the budget of the API key, because the provider
-- did the work.
CREATE FUNCTION decide_refund(INOUT a account, INOUT r reservation, operation jsonb,
  OUT answer json, OUT key text, OUT kind text) LANGUAGE plpgsql AS $$
DECLARE
  refund_key text := 'refund:' || r.id || ':' || (operation->>'refundId');
  repeated ledger_entry; refundable bigint; change bigint;
BEGIN
  SELECT * INTO repeated FROM ledger_entry e
    WHERE e.organization_id = a.organization_id AND e.idempotency_key = refund_key;
  -- For a repeated refund, only refunds before the first one count, so that the result is the same.
  refundable := r.charged - (SELECT coalesce(sum(e.posted_change), 0) FROM ledger_entry e
    WHERE e.reservation_id = r.id AND e.kind = 'refund'
      AND (repeated.sequence IS NULL OR e.sequence < repeated.sequence));
  change := coalesce((operation->>'amount')::bigint, refundable);
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

-- Grants credits, or removes unreserved credits if the amount is negative.
-- Properties of the operation: {organizationId, id, amount, actor, reason}.
CREATE FUNCTION decide_grant(INOUT a account, INOUT r reservation, operation jsonb,
  OUT answer json, OUT key text, OUT kind text) LANGUAGE plpgsql AS $$
DECLARE change bigint := operation->>'amount'; granted_amount bigint;
BEGIN
  r := NULL;
  SELECT e.posted_change INTO granted_amount FROM ledger_entry e
    WHERE e.organization_id = a.organization_id AND e.idempotency_key = 'grant:' || (operation->>'id');
  IF a.organization_id IS NULL THEN
    answer := '{"verdict": "no_account"}';
  ELSIF granted_amount IS NOT NULL THEN
    answer := json_build_object('repeated', true, 'balance', ledger_balance(a),
      'verdict', CASE WHEN granted_amount = change THEN 'granted' ELSE 'mismatch' END);
  ELSIF change < 0 AND a.posted - a.reserved + change < 0 THEN
    answer := json_build_object('verdict', 'insufficient_credits', 'required', -change,
      'balance', ledger_balance(a));
  ELSE
    a.posted := a.posted + change;
    key := 'grant:' || (operation->>'id'); kind := 'grant';
    answer := json_build_object('verdict', 'granted', 'repeated', false, 'balance', ledger_balance(a));
  END IF;
END $$;

-- Returns the answer that a reservation of this price, for an end user or none, would get now (decide_reserve).
CREATE FUNCTION ledger_probe(organization text, api_key_id text, price bigint, end_user text DEFAULT NULL,
  kind text DEFAULT 'studio') RETURNS json LANGUAGE sql AS $$
  SELECT (decide_reserve(a, NULL::reservation,
    jsonb_build_object('kind', kind, 'amount', price, 'id', 'probe'),
    limited_budgets(organization, api_key_id, end_user),
    CASE WHEN kind = 'studio' THEN reached_jobs_limit(a, holder, NULL) END,
    CASE WHEN (limits_of_end_user(organization, end_user)).suspended THEN '{"verdict": "end_user_suspended"}'::jsonb END)).answer
  FROM account a, api_key k JOIN api_key holder ON holder.id = coalesce(k.budget_of, k.id)
  WHERE a.organization_id = organization AND k.id = api_key_id
$$;
