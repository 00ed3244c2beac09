-- Total size of an organization's uploads. The statement that creates an upload adds its size and
-- checks the quota (storage/upload-rows.ts). These triggers apply every later change of an upload's
-- size, including its deletion.
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
