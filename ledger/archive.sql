-- Archive of the ledger: segments of an account's first entries, with the reservations, jobs and chats
-- that ended in them, are objects in the store (archive.ts), and their rows are removed. A reservation
-- is in the segment of its last entry, a bulk job in the segment of its last job. An entry remains as long as its reservation does; entries of
-- grants always remain, because their keys prevent a second grant.

-- Returns the bounds of the next segment of an account: at most `entries_max` entries from before a
-- time, of those that an audit found right and whose days are summed up (booked-days.sql). `last` is null if there are none. Entries of the last
-- seven days stay: callers may still repeat a request by its Idempotency-Key, or receive a webhook.
CREATE FUNCTION next_archive_segment(account_id text, before timestamptz, entries_max integer,
  OUT first bigint, OUT last bigint) LANGUAGE sql STABLE AS $$
  WITH s AS (SELECT coalesce(max(sequence), 0) + 1 AS first FROM archive_segment WHERE organization_id = account_id),
    page AS (SELECT e.sequence, e.created_at < least(before, clock_timestamp() - interval '7 days')
        AND e.sequence <= (SELECT c.sequence FROM audit_checkpoint c WHERE c.organization_id = account_id)
        AND e.sequence < (SELECT b.next_sequence FROM booked_account b WHERE b.organization_id = account_id) AS is_old
      FROM ledger_entry e, s WHERE e.organization_id = account_id AND e.sequence >= s.first
      ORDER BY e.sequence LIMIT entries_max)
  SELECT s.first, (SELECT max(sequence) FROM page WHERE sequence
    < coalesce((SELECT min(sequence) FROM page WHERE is_old IS NOT TRUE), 9223372036854775807)) FROM s $$;

-- Returns the reservations whose last entry is in a segment.
CREATE FUNCTION archived_reservations(account_id text, first_entry bigint, last_entry bigint) RETURNS SETOF reservation
LANGUAGE sql STABLE AS $$
  SELECT r.* FROM reservation r
  WHERE r.state <> 'reserved'
    AND r.id = ANY (ARRAY(SELECT DISTINCT e.reservation_id FROM ledger_entry e WHERE e.organization_id = account_id
      AND e.sequence BETWEEN first_entry AND last_entry AND e.reservation_id IS NOT NULL))
    AND (SELECT e.sequence FROM ledger_entry e WHERE e.organization_id = account_id
      AND e.idempotency_key = 'settle:' || r.id) <= last_entry
    AND NOT EXISTS (SELECT FROM ledger_entry e WHERE e.reservation_id = r.id AND e.kind = 'refund'
      AND e.sequence > last_entry) $$;

-- Returns the bulk jobs whose last job is among the given ones of a segment. A bulk job that has not
-- ended, or only in the last seven days, keeps its rows, and its archived items say so.
CREATE FUNCTION archived_bulks(ids text[]) RETURNS SETOF bulk LANGUAGE sql STABLE AS $$
  SELECT b.* FROM bulk b
  WHERE b.id = ANY (ARRAY(SELECT DISTINCT i.bulk_id FROM bulk_item i WHERE i.job_id = ANY (ids)))
    AND b.completed_at < clock_timestamp() - interval '7 days'
    AND NOT EXISTS (SELECT FROM bulk_item i JOIN reservation r ON r.id = i.job_id
      WHERE i.bulk_id = b.id AND r.id <> ALL (ids)) $$;

-- Returns the content of a segment: JSON lines, each with a table and a row of it. The first line has
-- the bounds and the totals before the first entry, and the hash of the previous segment. The planner
-- settings make Postgres use indexes, so that a segment takes as long in large tables as in small ones.
CREATE FUNCTION archive_content(account_id text, first_entry bigint, last_entry bigint) RETURNS text
LANGUAGE sql STABLE SET timezone = 'UTC'
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
  WITH r AS MATERIALIZED (SELECT * FROM archived_reservations(account_id, first_entry, last_entry)),
    b AS MATERIALIZED (SELECT * FROM archived_bulks(ARRAY(SELECT id FROM r))),
    v AS MATERIALIZED (SELECT x.* FROM b JOIN bulk_event x ON x.bulk_id = b.id),
    previous AS (SELECT * FROM archive_segment s WHERE s.organization_id = account_id AND s.sequence = first_entry - 1),
    line (place, name, key, value) AS (
      SELECT 1, 'segment', '', jsonb_build_object('organization_id', account_id, 'first_sequence', first_entry,
          'sequence', last_entry, 'posted_before', coalesce((SELECT posted FROM previous), 0), 'reserved_before',
          coalesce((SELECT reserved FROM previous), 0), 'previous_sha256', (SELECT sha256 FROM previous))
      UNION ALL SELECT 2, 'ledger_entry', lpad(e.sequence::text, 19, '0'), to_jsonb(e) FROM ledger_entry e
        WHERE e.organization_id = account_id AND e.sequence BETWEEN first_entry AND last_entry
      UNION ALL SELECT 3, 'reservation', r.id, to_jsonb(r) FROM r
      UNION ALL SELECT 4, 'job', j.id, to_jsonb(j) FROM r JOIN job j USING (id)
      UNION ALL SELECT 5, 'provider_call', p.job_id || lpad(p.call_index::text, 9, '0'), to_jsonb(p)
        FROM r JOIN provider_call p ON p.job_id = r.id
      UNION ALL SELECT 6, 'artifact', a.storage_key, to_jsonb(a) FROM r JOIN artifact a ON a.job_id = r.id
      UNION ALL SELECT 7, 'provider_notification', n.job_id || lpad(n.call_index::text, 9, '0') || n.operation_id,
        to_jsonb(n) FROM r JOIN provider_notification n ON n.job_id = r.id
      UNION ALL SELECT 8, 'webhook', w.subject_id, to_jsonb(w) FROM webhooks_of(ARRAY(SELECT id FROM r)) AS w
      UNION ALL SELECT 9, 'bulk', b.id, to_jsonb(b) FROM b
      -- The archive keeps no text of a chat.
      UNION ALL SELECT 10, 'bulk_item', i.bulk_id || lpad(i.index::text, 9, '0'), to_jsonb(i) || '{"request": {}, "answer": null}' FROM b JOIN bulk_item i ON i.bulk_id = b.id
      UNION ALL SELECT 11, 'bulk_event', v.id, to_jsonb(v) FROM v
      UNION ALL SELECT 12, 'webhook', w.subject_id, to_jsonb(w) FROM webhooks_of(ARRAY(SELECT id FROM v)) AS w)
  SELECT string_agg(jsonb_build_object('table', name, 'row', value)::text || E'\n', '' ORDER BY place, key COLLATE "C")
  FROM line $$;

-- Records a segment whose object has the given key and hash, and removes its rows, in one transaction
-- under the account's lock. Returns false, and changes nothing, if the rows are no longer those of the
-- object, because an operator refunded a job or an owner deleted media meanwhile.
CREATE FUNCTION archive_rows(account_id text, first_entry bigint, last_entry bigint, object_key text, object_sha256 text)
RETURNS boolean LANGUAGE plpgsql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE ids text[]; bulk_ids text[]; event_ids text[]; last_row ledger_entry;
BEGIN
  PERFORM FROM account WHERE organization_id = account_id FOR UPDATE;
  -- Another process may have archived the segment.
  IF EXISTS (SELECT FROM archive_segment WHERE organization_id = account_id AND sequence >= first_entry) THEN
    RETURN true;
  END IF;
  IF object_sha256 <> encode(sha256(convert_to(archive_content(account_id, first_entry, last_entry), 'UTF8')), 'hex') THEN
    RETURN false;
  END IF;
  ids := ARRAY(SELECT id FROM archived_reservations(account_id, first_entry, last_entry));
  bulk_ids := ARRAY(SELECT id FROM archived_bulks(ids));
  event_ids := ARRAY(SELECT id FROM bulk_event WHERE bulk_id = ANY (bulk_ids));
  SELECT * INTO last_row FROM ledger_entry WHERE organization_id = account_id AND sequence = last_entry;
  INSERT INTO archive_segment (organization_id, sequence, first_sequence, posted, reserved, reservations, charged, net,
      storage_key, sha256)
    SELECT account_id, last_entry, first_entry, last_row.posted_after, last_row.reserved_after, count(*),
      coalesce(sum(charged), 0), coalesce(sum(coalesce(charged, 0) - coalesce(refunded, 0)), 0), object_key, object_sha256
    FROM reservation WHERE id = ANY (ids);
  PERFORM keep_archived_sums(account_id, ids);
  INSERT INTO archived_id SELECT split_part(id, '_', 2)::uuid, account_id, last_entry FROM unnest(ids || bulk_ids) AS id;
  DELETE FROM metadata_pair t USING (
      SELECT x.id, x.created_at, pair.key, pair.value FROM reservation r LEFT JOIN job j USING (id),
        LATERAL (SELECT r.id, coalesce(j.created_at, r.created_at) AS created_at) AS x,
        LATERAL jsonb_each_text(coalesce(j.metadata, r.metadata)) AS pair WHERE r.id = ANY (ids)) AS p
    WHERE t.organization_id = account_id AND t.name = p.key AND t.value = p.value AND t.created_at = p.created_at
      AND t.id = p.id;
  DELETE FROM webhook w USING webhooks_of(ids || event_ids) AS x WHERE w.subject_id = x.subject_id;
  DELETE FROM bulk_event WHERE id = ANY (event_ids);
  DELETE FROM bulk WHERE id = ANY (bulk_ids);
  DELETE FROM provider_notification WHERE job_id = ANY (ids);
  DELETE FROM provider_call WHERE job_id = ANY (ids);
  -- The other artifacts remain until their owner deletes the media.
  DELETE FROM artifact WHERE job_id = ANY (ids) AND removed_at IS NOT NULL;
  DELETE FROM job WHERE id = ANY (ids);
  DELETE FROM ledger_entry WHERE organization_id = account_id AND idempotency_key = ANY (ARRAY(
    SELECT verb || id FROM unnest(ids) AS id, unnest('{reserve:,settle:}'::text[]) AS verb));
  DELETE FROM ledger_entry WHERE reservation_id = ANY (ids) AND kind = 'refund';
  DELETE FROM reservation WHERE id = ANY (ids);
  RETURN true;
END $$;

-- Keeps the sums of reservations that are removed: those of usage, by day and by month, and those of
-- budgets.
CREATE FUNCTION keep_archived_sums(account_id text, ids text[]) RETURNS void LANGUAGE sql AS $$
  INSERT INTO usage_day (organization_id, day, type, model, key_id, status, metadata, requests, net, input_tokens,
      output_tokens, archived)
    SELECT account_id, x.day, x.type, x.model, x.key_id, x.state,
      CASE WHEN coalesce(c.has_metadata, true) THEN x.metadata END, count(*), sum(x.net),
      coalesce(sum(x.input_tokens), 0), coalesce(sum(x.output_tokens), 0), true
    FROM (SELECT (coalesce(j.created_at, r.created_at) AT TIME ZONE 'UTC')::date AS day, coalesce(j.type, 'chat') AS type,
        coalesce(j.model, r.model) AS model, coalesce(j.key_id, r.key_id) AS key_id, r.state,
        coalesce(j.metadata, r.metadata) AS metadata, coalesce(r.charged, 0) - coalesce(r.refunded, 0) AS net,
        r.input_tokens, r.output_tokens
      FROM reservation r LEFT JOIN job j USING (id) WHERE r.id = ANY (ids)
        -- A Studio reservation whose workflow never began a job is not usage.
        AND (r.kind = 'chat' OR j.id IS NOT NULL)) AS x
      LEFT JOIN usage_closed_day c ON c.organization_id = account_id AND c.day = x.day
    GROUP BY x.day, x.type, x.model, x.key_id, x.state, 7;
  INSERT INTO usage_closed_day
    SELECT DISTINCT account_id, (coalesce(j.created_at, r.created_at) AT TIME ZONE 'UTC')::date, true, true
    FROM reservation r LEFT JOIN job j USING (id) WHERE r.id = ANY (ids)
    ON CONFLICT (organization_id, day) DO UPDATE SET stale = true;
  INSERT INTO archived_month AS m
    SELECT account_id, date_trunc('month', coalesce(j.created_at, r.created_at) AT TIME ZONE 'UTC')::date, count(*),
      sum(coalesce(r.charged, 0) - coalesce(r.refunded, 0)), coalesce(sum(r.input_tokens), 0), coalesce(sum(r.output_tokens), 0)
    FROM reservation r LEFT JOIN job j USING (id) WHERE r.id = ANY (ids) AND (r.kind = 'chat' OR j.id IS NOT NULL) GROUP BY 2
    ON CONFLICT (organization_id, month) DO UPDATE SET requests = m.requests + excluded.requests, net = m.net + excluded.net,
      input_tokens = m.input_tokens + excluded.input_tokens, output_tokens = m.output_tokens + excluded.output_tokens;
  INSERT INTO archived_spend AS b
    SELECT budget, (created_at AT TIME ZONE 'UTC')::date, sum(coalesce(charged, 0))
    FROM reservation, unnest(budget_id || further_budgets) AS budget WHERE id = ANY (ids) AND budget_id IS NOT NULL GROUP BY 1, 2
    ON CONFLICT (budget_id, day) DO UPDATE SET spent = b.spent + excluded.spent $$;

-- Deletes rows from before a time that contain no money and that nothing needs any more, at most
-- `rows_max` of each kind, and returns their number: runs of operators' actions on many jobs, whose
-- actions are recorded one by one; account notices of periods that are over; and bulk jobs without a
-- job in the database, which started none or ended later than their last job was archived.
CREATE FUNCTION delete_ended(before timestamptz, rows_max integer) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE ids text[]; event_ids text[]; deleted bigint;
BEGIN
  ids := ARRAY(SELECT id FROM bulk_action WHERE completed_at < before ORDER BY id LIMIT rows_max);
  DELETE FROM bulk_action_job WHERE bulk_action_id = ANY (ids);
  DELETE FROM bulk_action WHERE id = ANY (ids);
  deleted := cardinality(ids);
  ids := ARRAY(SELECT n.id FROM account_notice n
    WHERE n.created_at < before
      AND NOT EXISTS (SELECT FROM webhooks_of(ARRAY[n.id]) AS w WHERE w.state IN ('waiting', 'delivering'))
      -- The notice of a limit is sent once for each period, so it stays as long as its period.
      AND (n.period IS NULL OR EXISTS (SELECT FROM budget_period(split_part(n.period, ' ', 2), clock_timestamp()) AS p
        WHERE n.period IS NOT NULL AND split_part(n.period, ' ', 1) <> p.starts::text))
    ORDER BY n.id LIMIT rows_max);
  DELETE FROM webhook w USING webhooks_of(ids) AS x WHERE w.subject_id = x.subject_id;
  DELETE FROM account_notice WHERE id = ANY (ids);
  DELETE FROM end_user_mark WHERE starts < before AND limit_per <> 'total'
    AND starts <> (budget_period(limit_per, clock_timestamp())).starts;
  deleted := deleted + cardinality(ids);
  ids := ARRAY(SELECT b.id FROM bulk b WHERE b.completed_at < before
    AND NOT EXISTS (SELECT FROM bulk_item i JOIN reservation r ON r.id = i.job_id WHERE i.bulk_id = b.id)
    AND NOT EXISTS (SELECT FROM bulk_event v, webhooks_of(ARRAY[v.id]) AS w
      WHERE v.bulk_id = b.id AND w.state IN ('waiting', 'delivering'))
    ORDER BY b.id LIMIT rows_max);
  event_ids := ARRAY(SELECT id FROM bulk_event WHERE bulk_id = ANY (ids));
  DELETE FROM webhook w USING webhooks_of(event_ids) AS x WHERE w.subject_id = x.subject_id;
  DELETE FROM bulk_event WHERE id = ANY (event_ids);
  DELETE FROM bulk WHERE id = ANY (ids);
  RETURN deleted + cardinality(ids);
END $$;

-- Returns the state of an account behind its last segment, as audit_entries expects it.
CREATE FUNCTION archive_end(account_id text) RETURNS jsonb LANGUAGE sql STABLE AS $$
  SELECT coalesce((SELECT jsonb_build_object('sequence', sequence, 'posted', posted, 'reserved', reserved,
      'postedAfter', posted, 'reservedAfter', reserved) FROM archive_segment WHERE organization_id = account_id
      ORDER BY sequence DESC LIMIT 1),
    '{"sequence": 0, "posted": 0, "reserved": 0, "postedAfter": 0, "reservedAfter": 0}') $$;

-- Checks the kept sums of an account's archived jobs and chats against its segments.
CREATE FUNCTION audit_archive(account_id text) RETURNS TABLE (finding text, organization_id text, subject text)
LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY SELECT 'the sums of archived jobs and chats differ from the archive', account_id, account_id
  WHERE (SELECT coalesce(sum(net), 0) FROM archive_segment s WHERE s.organization_id = account_id)
      <> (SELECT coalesce(sum(net), 0) FROM usage_day u WHERE u.organization_id = account_id AND archived)
    OR (SELECT coalesce(sum(charged), 0) FROM archive_segment s WHERE s.organization_id = account_id)
      <> (SELECT coalesce(sum(spent), 0) FROM archived_spend b JOIN api_key k ON k.id = b.budget_id
        WHERE k.organization_id = account_id)
  UNION ALL SELECT * FROM audit_booked(account_id);
END $$;

-- Only entries of a segment may be removed, and none changed.
CREATE OR REPLACE FUNCTION reject_entry_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'DELETE' AND EXISTS (SELECT FROM archive_segment s
      WHERE s.organization_id = OLD.organization_id AND s.sequence >= OLD.sequence) THEN
    RETURN OLD;
  END IF;
  RAISE EXCEPTION 'ledger_entry is append-only';
END $$;
CREATE OR REPLACE TRIGGER ledger_entry_append_only BEFORE UPDATE OR DELETE ON ledger_entry
  FOR EACH ROW EXECUTE FUNCTION reject_entry_change();
