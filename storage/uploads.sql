-- Adds the maximum size of an upload to the used bytes of its organization. Returns false, and adds nothing, if the
-- quota of the organization, or that of the end user whose browser token uploads, has no room for it. The
-- row of the organization is locked first, so that the sum of the end user's uploads includes those that were
-- created while this function waited.
CREATE FUNCTION take_upload_room(owner text, bytes bigint, quota bigint, of_end_user text, end_user_quota bigint)
RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  IF of_end_user IS NOT NULL THEN
    PERFORM FROM organization WHERE id = owner FOR NO KEY UPDATE;
    IF bytes + (SELECT coalesce(sum(counted_bytes), 0) FROM upload
        WHERE organization_id = owner AND end_user = of_end_user) > end_user_quota THEN RETURN false; END IF;
  END IF;
  UPDATE organization SET upload_bytes = upload_bytes + bytes WHERE id = owner AND upload_bytes + bytes <= quota;
  RETURN FOUND;
END $$;

-- Keeps the total size of an organization's uploads up to date. take_upload_room counts a new upload; these
-- triggers count every later change of its size, and its deletion.
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
