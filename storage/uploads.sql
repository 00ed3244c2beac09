-- Keeps the total size of an organization's uploads up to date. The statement that creates an
-- upload checks the quota and adds its size (storage/upload-rows.ts); these triggers apply every
-- later change of that size, including deletion.
CREATE OR REPLACE FUNCTION upload_recount() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE organization SET upload_bytes = upload_bytes - OLD.counted_bytes
      + CASE TG_OP WHEN 'DELETE' THEN 0 ELSE NEW.counted_bytes END
    WHERE id = OLD.organization_id;
  RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER upload_is_recounted AFTER UPDATE OF completed_at, size_bytes, bytes_max ON upload
  FOR EACH ROW WHEN (OLD.counted_bytes <> NEW.counted_bytes) EXECUTE FUNCTION upload_recount();
CREATE OR REPLACE TRIGGER upload_is_no_longer_counted AFTER DELETE ON upload
  FOR EACH ROW EXECUTE FUNCTION upload_recount();

-- Copies of inputs count toward the same quota from their insertion (storage/inputs/input-copies.ts)
-- to their deletion.
CREATE OR REPLACE FUNCTION input_copy_uncount() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  UPDATE organization SET upload_bytes = upload_bytes - OLD.size_bytes WHERE id = OLD.organization_id;
  RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER input_copy_is_no_longer_counted AFTER DELETE ON input_copy
  FOR EACH ROW EXECUTE FUNCTION input_copy_uncount();
