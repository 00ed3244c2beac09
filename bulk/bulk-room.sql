-- Limits what bulk jobs store: checks the limits before the first item is stored, counts the items in
-- the storage quota of their organization, and deletes the bodies of items that cannot start again.

-- Sets the bytes of a new item, and deletes the body of an item that cannot start again. A row
-- without a body counts as 256 bytes, and the bytes of its answer, until they are deleted.
CREATE OR REPLACE FUNCTION bulk_item_measure() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'INSERT' AND NEW.state = 'failed' THEN
    NEW.stored_bytes := 256;
  ELSIF TG_OP = 'INSERT' THEN
    NEW.stored_bytes := 256 + octet_length(NEW.request::text)
      + coalesce(octet_length(NEW.webhook::text), 0) + coalesce(octet_length(NEW.metadata::text), 0);
  ELSIF NEW.state IN ('completed', 'canceled') OR NEW.state = 'failed'
    AND EXISTS (SELECT FROM bulk b WHERE b.id = NEW.bulk_id AND b.status = 'canceled') THEN
    NEW.request := '{}'; NEW.webhook := NULL; NEW.metadata := NULL;
    NEW.stored_bytes := least(NEW.stored_bytes, 256) + coalesce(octet_length(NEW.answer), 0);
  END IF;
  RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER bulk_item_is_measured BEFORE INSERT OR UPDATE OF state ON bulk_item
  FOR EACH ROW EXECUTE FUNCTION bulk_item_measure();

-- Adds the changed bytes of items to their bulk jobs.
CREATE OR REPLACE FUNCTION bulk_item_count_bytes() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'INSERT' THEN
    UPDATE bulk b SET stored_bytes = b.stored_bytes + n.bytes
      FROM (SELECT bulk_id, sum(stored_bytes) AS bytes FROM new_items GROUP BY bulk_id) AS n
      WHERE b.id = n.bulk_id;
  ELSIF TG_OP = 'UPDATE' THEN
    UPDATE bulk b SET stored_bytes = b.stored_bytes + n.bytes
      FROM (SELECT bulk_id, sum(bytes) AS bytes FROM (
          SELECT bulk_id, stored_bytes AS bytes FROM new_items
          UNION ALL SELECT bulk_id, -stored_bytes FROM old_items) AS changed GROUP BY bulk_id) AS n
      WHERE b.id = n.bulk_id AND n.bytes <> 0;
  ELSE
    -- The bulk job of deleted items has usually been deleted with them.
    UPDATE bulk b SET stored_bytes = b.stored_bytes - o.bytes
      FROM (SELECT bulk_id, sum(stored_bytes) AS bytes FROM old_items GROUP BY bulk_id) AS o
      WHERE b.id = o.bulk_id;
  END IF;
  RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER bulk_item_is_counted AFTER INSERT ON bulk_item
  REFERENCING NEW TABLE AS new_items FOR EACH STATEMENT EXECUTE FUNCTION bulk_item_count_bytes();
CREATE OR REPLACE TRIGGER bulk_item_is_recounted AFTER UPDATE ON bulk_item
  REFERENCING OLD TABLE AS old_items NEW TABLE AS new_items
  FOR EACH STATEMENT EXECUTE FUNCTION bulk_item_count_bytes();
CREATE OR REPLACE TRIGGER bulk_item_is_no_longer_counted AFTER DELETE ON bulk_item
  REFERENCING OLD TABLE AS old_items FOR EACH STATEMENT EXECUTE FUNCTION bulk_item_count_bytes();

-- Adds the changed bytes of a bulk job to those of its organization.
CREATE OR REPLACE FUNCTION bulk_count_bytes() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE organization SET upload_bytes = upload_bytes - OLD.stored_bytes
      + CASE TG_OP WHEN 'DELETE' THEN 0 ELSE NEW.stored_bytes END
    WHERE id = OLD.organization_id;
  RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER bulk_is_recounted AFTER UPDATE OF stored_bytes ON bulk
  FOR EACH ROW WHEN (OLD.stored_bytes <> NEW.stored_bytes) EXECUTE FUNCTION bulk_count_bytes();
CREATE OR REPLACE TRIGGER bulk_is_no_longer_counted AFTER DELETE ON bulk
  FOR EACH ROW WHEN (OLD.stored_bytes <> 0) EXECUTE FUNCTION bulk_count_bytes();

-- Deletes the bodies of the failed items of a bulk job that was canceled: no command starts them again.
CREATE OR REPLACE FUNCTION bulk_forget_failed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE bulk_item SET state = state WHERE bulk_id = NEW.id AND state = 'failed';
  RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER bulk_forgets_failed AFTER UPDATE OF status ON bulk
  FOR EACH ROW WHEN (NEW.status = 'canceled' AND OLD.status <> 'canceled')
  EXECUTE FUNCTION bulk_forget_failed();

-- Deletes the bodies of the failed items and the answers of bulk jobs that ended before a time, at most those
-- of 100 bulk jobs. These items cannot be retried afterwards.
CREATE FUNCTION bulk_forget_bodies(ended_before timestamptz) RETURNS void LANGUAGE plpgsql AS $$
DECLARE ids text[] := ARRAY(SELECT b.id FROM bulk b WHERE b.completed_at < ended_before
  AND b.stored_bytes > 256 * b.total
  -- A stopped bulk job keeps the bodies of its waiting items, because it can be resumed.
  AND EXISTS (SELECT FROM bulk_item i WHERE i.bulk_id = b.id
    AND (i.state = 'failed' AND i.request <> '{}' OR i.answer IS NOT NULL)) LIMIT 100);
BEGIN
  PERFORM bulk_delete_file(id, 'output') FROM unnest(ids) AS id;
  UPDATE bulk_item SET request = '{}', webhook = NULL, metadata = NULL, answer = NULL,
    stored_bytes = least(stored_bytes, 256)
  WHERE (state = 'failed' AND request <> '{}' OR answer IS NOT NULL) AND bulk_id = ANY (ids);
END $$;

-- Deletes a file of a batch, and the answers in it.
CREATE FUNCTION bulk_delete_file(of_bulk text, kind text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  UPDATE bulk SET batch = jsonb_set(batch, '{deleted}', coalesce(batch->'deleted', '[]') || to_jsonb(kind))
    WHERE id = of_bulk AND batch IS NOT NULL;
  IF NOT FOUND OR kind <> 'output' THEN RETURN; END IF;
  UPDATE bulk_item SET answer = NULL, stored_bytes = least(stored_bytes, 256)
    WHERE bulk_id = of_bulk AND state = 'completed' AND answer IS NOT NULL;
END $$;

-- Begins to receive a bulk job, whose row is in `bulk`: {bulk, bulksMax, itemsMax}. Returns the result
-- of bulk_over_limit, which also counts bulk jobs that are being received; their items do not count yet.
CREATE FUNCTION bulk_receive(input jsonb) RETURNS json LANGUAGE plpgsql AS $$
DECLARE b bulk := jsonb_populate_record(NULL::bulk, input->'bulk'); over json;
BEGIN
  b.waiting := 1;
  over := bulk_over_limit(b, input || '{"countsReceiving": true}');
  IF over IS NULL THEN
    INSERT INTO bulk (id, organization_id, key_id, request_id, concurrency, max_credits,
      max_failed_percent, metadata, recipe, webhook_url, webhook_events, batch, expires_at)
    VALUES (b.id, b.organization_id, b.key_id, b.request_id, b.concurrency, b.max_credits,
      b.max_failed_percent, b.metadata, b.recipe, b.webhook_url, b.webhook_events, b.batch,
      bulk_expiry(b));
  END IF;
  RETURN over;
END $$;
