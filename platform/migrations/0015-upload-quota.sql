-- What organizations keep of their own in the storage: bounded in bytes, and not kept for ever.
ALTER TABLE upload
  -- The most that its URL admits.
  ADD COLUMN bytes_max bigint CHECK (bytes_max > 0),
  -- When a request last named it as an input.
  ADD COLUMN used_at timestamptz,
  -- Until then somebody is sending the file, unless the time is renewed.
  ADD COLUMN receiving_until timestamptz,
  -- What it counts: the bytes that are there, or all that may still come.
  ADD COLUMN counted_bytes bigint NOT NULL GENERATED ALWAYS AS (
    CASE WHEN completed_at IS NULL THEN coalesce(bytes_max, size_bytes, 0) ELSE size_bytes END
  ) STORED;
CREATE INDEX upload_last_used ON upload (coalesce(used_at, completed_at))
  WHERE completed_at IS NOT NULL;

ALTER TABLE organization
  ADD COLUMN upload_bytes bigint NOT NULL DEFAULT 0 CHECK (upload_bytes >= 0);
UPDATE organization o SET upload_bytes = counted.bytes
  FROM (SELECT organization_id, sum(counted_bytes) AS bytes FROM upload GROUP BY 1) AS counted
  WHERE counted.organization_id = o.id AND counted.bytes > 0;

-- A new upload is counted where it is made, by a statement that refuses (activities/storage/uploads.ts);
-- whatever happens to it later is counted here, whoever does it.
CREATE FUNCTION upload_recount() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE organization SET upload_bytes = upload_bytes - OLD.counted_bytes
      + CASE TG_OP WHEN 'DELETE' THEN 0 ELSE NEW.counted_bytes END
    WHERE id = OLD.organization_id;
  RETURN NULL;
END $$;
CREATE TRIGGER upload_is_recounted AFTER UPDATE OF completed_at, size_bytes, bytes_max ON upload
  FOR EACH ROW WHEN (OLD.counted_bytes <> NEW.counted_bytes) EXECUTE FUNCTION upload_recount();
CREATE TRIGGER upload_is_no_longer_counted AFTER DELETE ON upload
  FOR EACH ROW EXECUTE FUNCTION upload_recount();
