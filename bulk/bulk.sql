-- Decides what a bulk job does next. Each function locks the row of the bulk job, so that the runs
-- of its workflow, callers and the sweeper change it one after the other, and changes the items and
-- their counts in one transaction. A job counts when its own row has ended, so that a repeated count
-- finds nothing more.
--
-- An end of an item gets the number `bulk.last_end` + 1 + its index. Numbers are given under the lock,
-- so a reader that has seen a number misses no smaller one.

-- Returns the key that a bulk job acts with: its own or, after a rotation, the one that replaced it.
-- No row if none of them may spend credits any more.
CREATE FUNCTION bulk_caller(api_key_id text) RETURNS json LANGUAGE sql AS $$
  WITH RECURSIVE chain AS (
    SELECT k.* FROM api_key k WHERE k.id = api_key_id
    UNION ALL SELECT k.* FROM chain c JOIN api_key k ON k.id = c.replaced_by)
  SELECT json_build_object('keyId', k.id, 'organizationId', k.organization_id, 'userId', u.id,
    'organizationStatus',
    (SELECT o.status FROM organization o WHERE o.id = k.organization_id), 'role', u.role, 'scopes', k.scopes, 'allowedModels', k.allowed_models)
  FROM chain k JOIN app_user u ON u.id = k.user_id
  WHERE k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > clock_timestamp())
    AND u.role <> 'viewer'
  LIMIT 1
$$;

-- Records an event of a bulk job with its webhooks, if it has any. Returns the id of the event; null
-- if no webhook reports it.
CREATE FUNCTION bulk_report(b bulk, event text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE event_id text := 'evt_' || replace(gen_random_uuid()::text, '-', '');
BEGIN
  -- The workflow of the bulk job delivers to its URL, and the sweeper to endpoints.
  INSERT INTO webhook (subject_id, organization_id, url, endpoint_id, state, next_attempt_at, overdue_at)
    SELECT event_id || a.suffix, b.organization_id, a.url, a.endpoint_id, 'delivering', clock_timestamp(),
      clock_timestamp() + CASE WHEN a.endpoint_id IS NULL THEN interval '5 seconds' ELSE interval '0' END
    FROM webhook_addresses(b.organization_id, b.webhook_url, b.webhook_events, 'studio.bulk.') AS a
    WHERE event = ANY (a.events);
  IF NOT FOUND THEN RETURN NULL; END IF;
  INSERT INTO bulk_event (id, bulk_id, type, stop_reason) VALUES (event_id, b.id, event, b.stop_reason);
  RETURN CASE WHEN b.webhook_url IS NOT NULL THEN event_id END;
END $$;

-- Writes the changed columns of a locked bulk job.
CREATE FUNCTION bulk_write(b bulk) RETURNS void LANGUAGE sql AS $$
  UPDATE bulk w SET status = b.status, stop_reason = b.stop_reason, resume_at = b.resume_at,
    concurrency = b.concurrency, max_credits = b.max_credits, max_failed_percent = b.max_failed_percent,
    waiting = b.waiting, running = b.running, awaiting = b.awaiting, completed = b.completed, failed = b.failed,
    canceled = b.canceled, waiting_price = b.waiting_price, reserved = b.reserved,
    ended_price = b.ended_price, charged = b.charged, cancels_running = b.cancels_running,
    unsignaled_since = b.unsignaled_since, completed_at = b.completed_at, last_end = b.last_end,
    expires_at = b.expires_at, canceled_at = b.canceled_at, batch = b.batch,
    paused_at = CASE WHEN b.status <> 'paused' THEN NULL
      WHEN w.status = 'paused' AND w.stop_reason = b.stop_reason THEN w.paused_at ELSE clock_timestamp() END
  WHERE w.id = b.id
$$;

-- Returns when a bulk job that begins or continues now expires: a batch after its completion window.
CREATE FUNCTION bulk_expiry(b bulk) RETURNS timestamptz LANGUAGE sql AS $$
  SELECT CASE WHEN b.batch IS NOT NULL THEN clock_timestamp() + interval '24 hours' END $$;

-- Returns the files of a batch that has ended. A file without lines, or one that was deleted, is left out. Completed
-- items have no lines if their answers were deleted before the batch was retried.
CREATE FUNCTION bulk_files(b bulk) RETURNS text[] LANGUAGE sql STABLE AS $$
  SELECT ARRAY(SELECT f.kind FROM (VALUES ('output', b.completed), ('errors', b.failed + b.canceled)) AS f(kind, lines)
    WHERE b.batch IS NOT NULL AND b.completed_at IS NOT NULL AND f.lines > 0
      AND (b.batch->'deleted' ? f.kind) IS NOT TRUE
      AND (f.kind = 'errors' OR EXISTS (SELECT FROM bulk_item i
        WHERE i.bulk_id = b.id AND i.state = 'completed' AND i.answer IS NOT NULL))) $$;

-- Returns the error of items that a canceled bulk job has not started.
CREATE FUNCTION bulk_canceled_error(stop_reason text) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN stop_reason = 'EXPIRED'
    THEN '{"code": "DEADLINE_EXCEEDED", "message": "The bulk job expired before the item started."}'::jsonb
    ELSE '{"code": "CANCELED", "message": "The bulk job was canceled before the item started."}'::jsonb END $$;

-- Returns the id of the next job or chat of an item. The first 12 digits are the time of the bulk job. The
-- others follow from the bulk job, the index and the round, so that a start that is repeated, even
-- after the restore of a backup, finds the workflow of the first start. The id of a job whose
-- reservation was rejected determines the id of the next one.
CREATE FUNCTION bulk_job_id(bulk_id text, former text, is_chat boolean DEFAULT false) RETURNS text LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN is_chat THEN 'chat_' ELSE 'job_' END || substr(bulk_id, 6, 12) || left(encode(sha256(convert_to(bulk_id || ' ' || former, 'UTF8')), 'hex'), 20) $$;

-- Changes started items without a job, whose end the workflow does not await. `missing` and `rejected` wait
-- again: their workflow was not found, or the ledger rejected their reservation. In a canceled bulk
-- job, which starts nothing more, they are canceled. `lost` fail: their workflow has ended, but a
-- restored database lacks the job. A chat waits again, with another id, if its reservation was rejected,
-- if the provider was busy (`error.waits`), or if its worker has not reserved within 30 seconds: its reservation
-- requires that the item still has its id (bulk_claim).
CREATE FUNCTION bulk_return_items(INOUT b bulk, missing jsonb, rejected jsonb, lost jsonb) LANGUAGE plpgsql AS $$
DECLARE i record; next_state text;
BEGIN
  FOR i IN SELECT * FROM bulk_item r WHERE r.bulk_id = b.id AND r.state = 'running'
      AND (r.error ? 'waits' OR NOT EXISTS (SELECT FROM reservation v WHERE v.id = r.job_id)
        AND (rejected ? r.job_id OR CASE WHEN r.chat_min IS NULL THEN missing ? r.job_id OR lost ? r.job_id
          ELSE r.claimed_at < clock_timestamp() - interval '30 seconds' END)) ORDER BY r.index FOR UPDATE
  LOOP
    next_state := CASE WHEN i.chat_min IS NULL AND lost ? i.job_id THEN 'failed' WHEN b.status = 'canceled' THEN 'canceled' ELSE 'waiting' END;
    b.running := b.running - 1; b.reserved := b.reserved - i.price;
    IF next_state = 'waiting' THEN
      b.waiting := b.waiting + 1; b.waiting_price := b.waiting_price + i.price;
      UPDATE bulk_item w SET state = next_state, error = w.error - 'waits',
        postponed = w.postponed + coalesce(w.error ? 'waits', false)::integer,
        job_id = CASE WHEN rejected ? w.job_id OR w.chat_min IS NOT NULL
          THEN bulk_job_id(b.id, w.job_id, w.chat_min IS NOT NULL) ELSE w.job_id END
      WHERE w.bulk_id = b.id AND w.index = i.index;
      CONTINUE;
    END IF;
    b.ended_price := b.ended_price + i.price; b.last_end := b.last_end + 1 + i.index;
    b.failed := b.failed + (next_state = 'failed')::integer;
    b.canceled := b.canceled + (next_state = 'canceled')::integer;
    UPDATE bulk_item w SET state = next_state, ended_at = clock_timestamp(), end_number = b.last_end,
      error = CASE next_state WHEN 'canceled' THEN bulk_canceled_error(b.stop_reason)
        ELSE '{"code": "JOB_LOST", "message": "The job of the item had ended before a backup was restored that does not contain it."}' END
    WHERE w.bulk_id = b.id AND w.index = i.index;
  END LOOP;
END $$;

-- Returns whether the item of a job or chat is started. Called by its reservation, in its
-- transaction: the changed time keeps the item from being returned while the job begins.
CREATE FUNCTION bulk_claim(started_job_id text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  UPDATE bulk_item SET claimed_at = clock_timestamp() WHERE job_id = started_job_id AND state = 'running';
  RETURN FOUND;
END $$;

-- Stores the ends of chats, in the transaction of their settlements: the answer, or the error, with `waits`
-- if the chat can be tried again.
CREATE FUNCTION bulk_end_chats(operations jsonb, answers json[]) RETURNS void LANGUAGE sql AS $$
  UPDATE bulk_item i SET answer = o->'item'->>'answer', error = o->'item'->'error'
  FROM ROWS FROM (jsonb_array_elements(operations), unnest(answers)) AS x(o, result)
  WHERE o ? 'item' AND o->>'verb' = 'settle' AND result->>'verdict' = 'settled'
    AND i.job_id = o->>'id' AND i.state = 'running'
$$;

-- Returns the running items of a bulk job whose job or chat has ended. A job that was rejected before it delivered
-- anything was ended by its caller. A chat without answer and error was settled by the sweeper, because its worker stopped.
CREATE FUNCTION bulk_ended_items(of_bulk text) RETURNS TABLE (index integer, state text, charged bigint,
  error jsonb, ended_at timestamptz) LANGUAGE sql AS $$
  SELECT i.index, CASE WHEN j.error->>'code' = 'APPROVAL_REJECTED' THEN 'canceled' ELSE j.status END,
      coalesce(r.charged, 0), j.error, j.completed_at
    FROM bulk_item i JOIN job j ON j.id = i.job_id JOIN reservation r ON r.id = j.id
    WHERE i.bulk_id = of_bulk AND i.state = 'running' AND i.chat_min IS NULL AND j.status <> 'open'
  UNION ALL SELECT i.index, CASE WHEN i.answer IS NULL THEN 'failed' ELSE 'completed' END, coalesce(r.charged, 0),
      CASE WHEN i.answer IS NULL THEN coalesce(i.error, '{"code": "OUTCOME_UNKNOWN",
        "message": "The worker that called the provider stopped, so the answer is lost."}') END, r.settled_at
    FROM bulk_item i JOIN reservation r ON r.id = i.job_id
    WHERE i.bulk_id = of_bulk AND i.state = 'running' AND i.chat_min IS NOT NULL AND r.state <> 'reserved'
      AND (i.error ? 'waits') IS NOT TRUE
$$;

-- Counts the jobs and chats that have ended since the last count, and the running jobs that await an approval.
CREATE FUNCTION bulk_count_ends(INOUT b bulk) LANGUAGE plpgsql AS $$
DECLARE e record; last integer := -1;
BEGIN
  b.awaiting := 0;
  IF b.running = 0 THEN RETURN; END IF;
  FOR e IN
    UPDATE bulk_item i SET state = n.state, charged = n.charged, error = n.error,
      ended_at = n.ended_at, end_number = b.last_end + 1 + i.index
    FROM bulk_ended_items(b.id) AS n
    WHERE i.bulk_id = b.id AND i.index = n.index
    RETURNING i.index, i.state, i.price, i.charged
  LOOP
    b.running := b.running - 1;
    b.completed := b.completed + (e.state = 'completed')::integer;
    b.failed := b.failed + (e.state = 'failed')::integer;
    b.canceled := b.canceled + (e.state = 'canceled')::integer;
    b.reserved := b.reserved - e.price; b.ended_price := b.ended_price + e.price;
    b.charged := b.charged + e.charged; last := greatest(last, e.index);
  END LOOP;
  b.last_end := b.last_end + 1 + last;
  SELECT count(*) INTO b.awaiting FROM bulk_item i JOIN job j ON j.id = i.job_id
    WHERE i.bulk_id = b.id AND i.state = 'running' AND j.awaiting;
END $$;

-- Fails waiting items that cannot be started: [{index, error: {code, message}}].
CREATE FUNCTION bulk_fail_items(INOUT b bulk, failures jsonb) LANGUAGE plpgsql AS $$
DECLARE items integer; price bigint; last integer;
BEGIN
  WITH ended AS (
    UPDATE bulk_item i SET state = 'failed', error = f.value->'error', ended_at = clock_timestamp(),
      end_number = b.last_end + 1 + i.index
    FROM jsonb_array_elements(failures) AS f
    WHERE i.bulk_id = b.id AND i.index = (f.value->>'index')::integer AND i.state = 'waiting'
    RETURNING i.price, i.index)
  SELECT count(*), coalesce(sum(e.price), 0), coalesce(max(e.index), -1) INTO items, price, last FROM ended e;
  b.last_end := b.last_end + 1 + last;
  b.waiting := b.waiting - items; b.failed := b.failed + items;
  b.waiting_price := b.waiting_price - price; b.ended_price := b.ended_price + price;
END $$;

-- Stops a bulk job if its key or its organization may not go on, or too many items failed.
CREATE FUNCTION bulk_stop(INOUT b bulk, caller json) LANGUAGE plpgsql AS $$
BEGIN
  IF b.status <> 'in_progress' AND NOT (b.status = 'paused' AND b.stop_reason <> 'PAUSED') THEN RETURN; END IF;
  b.stop_reason := CASE
    WHEN (SELECT status FROM organization WHERE id = b.organization_id) = 'suspended' THEN 'ORGANIZATION_SUSPENDED'
    WHEN caller IS NULL THEN 'KEY_REVOKED'
    WHEN b.completed + b.failed >= 20
      AND b.failed * 100.0 > b.max_failed_percent * (b.completed + b.failed) THEN 'MAX_FAILED_PERCENT'
    ELSE b.stop_reason END;
  IF b.stop_reason IN ('ORGANIZATION_SUSPENDED', 'KEY_REVOKED', 'MAX_FAILED_PERCENT') THEN
    b.status := 'stopped'; b.resume_at := NULL;
  END IF;
END $$;

-- Decides whether the next item may start. `may_start` is false if the bulk job pauses or stops, or
-- if the next item only fits when a running one has ended. Fails at most 250 items, because a statement has a time
-- limit; then `more` is true, and the caller repeats the call.
CREATE FUNCTION bulk_gate(INOUT b bulk, caller json, OUT may_start boolean, OUT more boolean) LANGUAGE plpgsql AS $$
DECLARE next record; answer json; verdict text; decided integer := 0;
BEGIN
  may_start := false; more := false;
  LOOP
    EXIT WHEN b.waiting = 0 OR b.expires_at <= clock_timestamp() OR b.status <> 'in_progress' AND NOT (b.status = 'paused' AND b.stop_reason <> 'PAUSED');
    IF decided = 250 THEN more := true; EXIT; END IF;
    decided := decided + 1;
    SELECT i.index, i.price, i.chat_min, i.metadata->>'$endUser' AS end_user INTO next FROM bulk_item i
      WHERE i.bulk_id = b.id AND i.state = 'waiting' ORDER BY i.postponed, i.index LIMIT 1;
    IF b.charged + b.reserved + next.price > b.max_credits THEN
      IF b.running = 0 THEN b.status := 'stopped'; b.stop_reason := 'MAX_CREDITS'; b.resume_at := NULL; END IF;
      EXIT;
    END IF;
    answer := ledger_probe(b.organization_id, caller->>'keyId', coalesce(next.chat_min, next.price), next.end_user,
      CASE WHEN next.chat_min IS NULL THEN 'studio' ELSE 'chat' END);
    verdict := answer->>'verdict';
    IF verdict = 'reserved' THEN
      b.status := 'in_progress'; b.stop_reason := NULL; b.resume_at := NULL; may_start := true;
      EXIT;
    END IF;
    IF verdict = 'window_limit_exceeded' THEN
      b := bulk_fail_items(b, jsonb_build_array(jsonb_build_object('index', next.index, 'error',
        jsonb_build_object('code', 'WINDOW_LIMIT_EXCEEDED',
          'message', 'The item costs more than the organization may use in a whole six-hour window.'))));
      CONTINUE;
    END IF;
    -- Running jobs may return credits when they end, an end user's only to its limit; those that await an approval may
    -- take days.
    EXIT WHEN b.running > b.awaiting AND CASE verdict WHEN 'end_user_suspended' THEN false
      WHEN 'end_user_limit_exceeded' THEN EXISTS (SELECT FROM bulk_item i WHERE i.bulk_id = b.id AND i.state = 'running'
        AND i.metadata->>'$endUser' = next.end_user) ELSE true END;
    -- The limit of one end user does not stop the items of others.
    IF verdict IN ('end_user_limit_exceeded', 'end_user_suspended') THEN
      b := bulk_fail_items(b, jsonb_build_array(jsonb_build_object('index', next.index, 'error', jsonb_build_object(
        'code', upper(verdict), 'message', CASE verdict WHEN 'end_user_suspended' THEN 'The end user is suspended.'
          ELSE 'The remaining limit of the end user is too low for this item.' END))));
      CONTINUE;
    END IF;
    b.status := 'paused'; b.stop_reason := upper(verdict);
    b.resume_at := CASE verdict WHEN 'window_exhausted' THEN (answer->>'resetAt')::timestamptz
      WHEN 'key_limit_exceeded' THEN to_timestamp((answer->>'resetsAtMs')::bigint / 1000.0) END;
    EXIT;
  END LOOP;
END $$;

-- Counts what has ended, decides whether the bulk job goes on, and returns its state and the next
-- items to plan: those with jobs, or chats. Input: {bulkId, missing, rejected, lost: ids of jobs
-- (bulk_return_items), itemsMax, chats?}. `chatsMayStart` tells whether chats wait and may start, `more` whether this
-- function has to be called again at once (bulk_gate).
-- Workers of 0.1.0 send `live` instead of `missing` and `lost`: the ids of the jobs whose end they await.
CREATE FUNCTION bulk_advance(input jsonb) RETURNS json LANGUAGE plpgsql AS $$
DECLARE b bulk; before bulk; caller json; gate record; event_id text; items json;
  chats boolean := coalesce((input->>'chats')::boolean, false);
BEGIN
  SELECT * INTO b FROM bulk WHERE id = input->>'bulkId' AND status <> 'receiving' FOR UPDATE;
  IF NOT FOUND THEN RETURN NULL; END IF;
  before := b;
  caller := bulk_caller(b.key_id);
  IF input ? 'live' THEN
    input := input || jsonb_build_object('lost', '[]'::jsonb, 'missing', (
      SELECT coalesce(jsonb_agg(i.job_id), '[]') FROM bulk_item i
        WHERE i.bulk_id = b.id AND i.state = 'running' AND NOT input->'live' ? i.job_id
          AND i.claimed_at < clock_timestamp() - interval '10 seconds'));
  END IF;
  b := bulk_return_items(b, input->'missing', input->'rejected', input->'lost');
  b := bulk_count_ends(b);
  b := bulk_stop(b, caller);
  SELECT * INTO gate FROM bulk_gate(b, caller);
  b := gate.b;
  IF b.waiting = 0 AND b.running = 0 AND b.status IN ('in_progress', 'paused') THEN
    b.status := 'completed'; b.stop_reason := NULL; b.resume_at := NULL;
  END IF;
  IF b.status IN ('completed', 'stopped', 'canceled') AND b.running = 0 AND b.completed_at IS NULL THEN
    b.completed_at := clock_timestamp();
    event_id := bulk_report(b, b.status);
    PERFORM pg_notify('studio_job', json_build_object('event', 'done', 'id', b.id)::text);
  ELSIF b.status = 'paused' AND (before.status <> 'paused' OR before.stop_reason <> b.stop_reason) THEN
    event_id := bulk_report(b, 'paused');
  END IF;
  IF b IS DISTINCT FROM before THEN PERFORM bulk_write(b); END IF;
  IF gate.may_start THEN
    SELECT json_agg(n) INTO items FROM (
      -- Items that were postponed more often may take long, and are planned apart from the others.
      SELECT i.index, i.type, i.request, i.webhook, i.metadata, i.recipe,
        coalesce(i.job_id, bulk_job_id(b.id, i.index || ' ' || i.round, chats)) AS "jobId", i.postponed FROM bulk_item i
      WHERE i.bulk_id = b.id AND i.state = 'waiting' AND (i.chat_min IS NOT NULL) = chats AND i.postponed =
        (SELECT min(w.postponed) FROM bulk_item w
          WHERE w.bulk_id = b.id AND w.state = 'waiting' AND (w.chat_min IS NOT NULL) = chats)
      -- More items than `concurrency` may be running after it was lowered.
      ORDER BY i.index LIMIT greatest(0, least((input->>'itemsMax')::integer, b.concurrency - b.running + b.awaiting))) AS n;
  END IF;
  RETURN json_build_object('status', b.status, 'stopReason', b.stop_reason,
    'resumeInMs', (extract(epoch FROM b.resume_at - clock_timestamp()) * 1000)::bigint,
    'done', b.completed_at IS NOT NULL, 'total', b.total, 'waiting', b.waiting, 'running', b.running, 'awaiting', b.awaiting,
    'completed', b.completed, 'failed', b.failed, 'canceled', b.canceled,
    'chargedMicro', b.charged, 'reservedMicro', b.reserved,
    'organizationId', b.organization_id, 'pricedAtMs', floor(extract(epoch FROM b.created_at) * 1000)::bigint, 'requestId', b.request_id, 'metadata', b.metadata,
    'caller', caller, 'eventId', event_id, 'items', coalesce(items, '[]'),
    'more', gate.more, 'chatsMayStart', gate.may_start AND b.running - b.awaiting < b.concurrency
      AND EXISTS (SELECT FROM bulk_item i WHERE i.bulk_id = b.id AND i.state = 'waiting' AND i.chat_min IS NOT NULL),
    'chatsRunning',
    (SELECT count(*) FROM bulk_item i WHERE i.bulk_id = b.id AND i.state = 'running' AND i.chat_min IS NOT NULL),
    'pausedProviders', (SELECT coalesce(json_agg(p.provider), '[]') FROM provider_pause p),
    -- Providers bill chats that were sent, so their answers are awaited.
    'toCancel', coalesce((SELECT json_agg(i.job_id) FROM bulk_item i
      WHERE b.cancels_running AND i.chat_min IS NULL AND i.bulk_id = b.id AND i.state = 'running'), '[]'));
END $$;

-- Records planned items: {bulkId, starts: [{index, jobId, price}], failures: [{index, error}],
-- postponed: [{index, error}]}. Postponed items go on waiting, behind the others.
-- Returns the indexes of the items that may start: those that fit into the budget, in their order.
CREATE FUNCTION bulk_start_items(input jsonb) RETURNS json LANGUAGE plpgsql AS $$
DECLARE b bulk; s record; former bigint; started integer[] := '{}';
BEGIN
  SELECT * INTO b FROM bulk WHERE id = input->>'bulkId' FOR UPDATE;
  b := bulk_fail_items(b, input->'failures');
  UPDATE bulk_item i SET postponed = i.postponed + 1, error = p->'error'
    FROM jsonb_array_elements(input->'postponed') AS p
    WHERE i.bulk_id = b.id AND i.index = (p->>'index')::integer AND i.state = 'waiting';
  FOR s IN SELECT * FROM jsonb_to_recordset(input->'starts') AS x(index integer, "jobId" text, price bigint)
    ORDER BY x.index
  LOOP
    EXIT WHEN b.status <> 'in_progress' OR b.running - b.awaiting >= b.concurrency;
    SELECT price INTO former FROM bulk_item WHERE bulk_id = b.id AND index = s.index AND state = 'waiting';
    CONTINUE WHEN NOT FOUND;
    b.waiting_price := b.waiting_price - former;
    IF b.charged + b.reserved + s.price > b.max_credits THEN
      -- The gate decides by the new price.
      UPDATE bulk_item SET price = s.price WHERE bulk_id = b.id AND index = s.index;
      b.waiting_price := b.waiting_price + s.price;
      EXIT;
    END IF;
    UPDATE bulk_item SET state = 'running', job_id = s."jobId", price = s.price,
      error = NULL, claimed_at = clock_timestamp() WHERE bulk_id = b.id AND index = s.index;
    b.waiting := b.waiting - 1; b.running := b.running + 1; b.reserved := b.reserved + s.price;
    started := started || s.index;
  END LOOP;
  PERFORM bulk_write(b);
  RETURN to_json(started);
END $$;

-- Returns {bulks, items}, the numbers of the open ones, if an organization has too many of them to
-- open a locked bulk job; otherwise null. The limits are {bulksMax, itemsMax, countsReceiving?: whether
-- bulk jobs that are being received count as open}.
CREATE FUNCTION bulk_over_limit(b bulk, limits jsonb) RETURNS json LANGUAGE plpgsql AS $$
DECLARE bulks bigint; items bigint;
BEGIN
  -- Two bulk jobs of an organization are opened one after the other.
  PERFORM pg_advisory_xact_lock(hashtext('bulk ' || b.organization_id));
  SELECT count(*), coalesce(sum(o.waiting + o.running), 0) INTO bulks, items FROM bulk o
    WHERE o.organization_id = b.organization_id AND o.completed_at IS NULL AND o.id <> b.id
      AND (o.status <> 'receiving' OR coalesce((limits->>'countsReceiving')::boolean, false)
        AND o.created_at > clock_timestamp() - interval '10 minutes');
  IF bulks + 1 > (limits->>'bulksMax')::bigint OR items + b.waiting > (limits->>'itemsMax')::bigint THEN
    RETURN json_build_object('bulks', bulks, 'items', items);
  END IF;
  RETURN NULL;
END $$;

-- Activates a received bulk job: {bulkId, bulksMax, itemsMax}. Returns the result of bulk_over_limit.
CREATE FUNCTION bulk_activate(input jsonb) RETURNS json LANGUAGE plpgsql AS $$
DECLARE b bulk; over json;
BEGIN
  SELECT * INTO b FROM bulk WHERE id = input->>'bulkId' FOR UPDATE;
  over := bulk_over_limit(b, input);
  IF over IS NULL THEN
    UPDATE bulk SET status = 'in_progress', unsignaled_since = clock_timestamp() WHERE id = b.id;
  END IF;
  RETURN over;
END $$;

-- Applies the command of a caller or operator: {bulkId, organizationId, command, …}. Returns
-- `changed`, `unchanged`, `not_found`, `done` (it has ended), `canceled`, `nothing` (no item can be retried),
-- or the result of bulk_over_limit.
--   cancel: {all: whether running jobs are canceled too, reason?: EXPIRED}
--   pause
--   resume: {maxCredits?, maxFailedPercent?, concurrency?}, also of a stopped bulk job
--   retry: starts failed items once more, also of an ended bulk job
CREATE FUNCTION bulk_command(input jsonb) RETURNS json LANGUAGE plpgsql AS $$
DECLARE b bulk; before bulk; items integer := 0; price bigint := 0; last integer; over json;
BEGIN
  SELECT * INTO b FROM bulk WHERE id = input->>'bulkId' AND organization_id = input->>'organizationId'
    AND status <> 'receiving' FOR UPDATE;
  IF NOT FOUND THEN RETURN '"not_found"'; END IF;
  before := b;
  CASE input->>'command'
  WHEN 'cancel' THEN
    IF b.completed_at IS NOT NULL AND b.status <> 'stopped' THEN RETURN '"done"'; END IF;
    b.stop_reason := coalesce(input->>'reason', CASE WHEN b.status = 'canceled' THEN b.stop_reason END);
    WITH ended AS (
      UPDATE bulk_item i SET state = 'canceled', ended_at = clock_timestamp(), error = bulk_canceled_error(b.stop_reason),
        end_number = b.last_end + 1 + i.index
      WHERE i.bulk_id = b.id AND i.state = 'waiting' RETURNING i.price, i.index)
    SELECT count(*), coalesce(sum(e.price), 0), coalesce(max(e.index), -1) INTO items, price, last FROM ended e;
    b.last_end := b.last_end + 1 + last;
    b.waiting := b.waiting - items; b.canceled := b.canceled + items;
    b.waiting_price := b.waiting_price - price; b.ended_price := b.ended_price + price;
    b.status := 'canceled'; b.resume_at := NULL; b.completed_at := NULL;
    b.canceled_at := coalesce(b.canceled_at, clock_timestamp());
    b.cancels_running := b.cancels_running OR coalesce((input->>'all')::boolean, false);
  WHEN 'pause' THEN
    IF b.status = 'canceled' THEN RETURN '"canceled"'; END IF;
    IF b.status IN ('completed', 'stopped') THEN RETURN '"done"'; END IF;
    b.status := 'paused'; b.stop_reason := 'PAUSED'; b.resume_at := NULL;
  WHEN 'resume' THEN
    IF b.status = 'canceled' THEN RETURN '"canceled"'; END IF;
    IF b.status = 'completed' THEN RETURN '"done"'; END IF;
    b.max_credits := coalesce((input->>'maxCredits')::bigint, b.max_credits);
    b.max_failed_percent := coalesce((input->>'maxFailedPercent')::float8, b.max_failed_percent);
    b.concurrency := coalesce((input->>'concurrency')::integer, b.concurrency);
    b.status := 'in_progress'; b.stop_reason := NULL; b.resume_at := NULL; b.completed_at := NULL;
  WHEN 'retry' THEN
    IF b.status = 'canceled' THEN RETURN '"canceled"'; END IF;
    -- The bodies of items that failed long ago have been deleted.
    SELECT count(*), coalesce(sum(i.price), 0) INTO items, price FROM bulk_item i
      WHERE i.bulk_id = b.id AND i.state = 'failed' AND i.request <> '{}';
    IF items = 0 THEN RETURN '"nothing"'; END IF;
    b.failed := b.failed - items; b.waiting := b.waiting + items;
    b.ended_price := b.ended_price - price; b.waiting_price := b.waiting_price + price;
    IF b.status IN ('completed', 'stopped') THEN
      b.status := 'in_progress'; b.stop_reason := NULL; b.completed_at := NULL;
    END IF;
  END CASE;
  IF before.completed_at IS NOT NULL AND b.status = 'in_progress' THEN
    over := bulk_over_limit(b, input);
    IF over IS NOT NULL THEN RETURN over; END IF;
    b.expires_at := bulk_expiry(b);
  END IF;
  -- Its files change.
  IF b.completed_at IS NULL THEN b.batch := b.batch - '{sizes,deleted}'::text[]; END IF;
  IF input->>'command' = 'retry' THEN
    UPDATE bulk_item i SET state = 'waiting', round = i.round + 1, job_id = NULL, error = NULL,
      postponed = 0, charged = 0, answer = NULL, ended_at = NULL, end_number = NULL
    WHERE i.bulk_id = b.id AND i.state = 'failed' AND i.request <> '{}';
  END IF;
  IF b IS NOT DISTINCT FROM before THEN RETURN '"unchanged"'; END IF;
  b.unsignaled_since := clock_timestamp();
  PERFORM bulk_write(b);
  RETURN '"changed"';
END $$;
