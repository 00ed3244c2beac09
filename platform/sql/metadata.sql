-- The pairs in the `metadata` of jobs and chats are also stored as rows, so that lists can be
-- filtered by them. This trigger writes the rows of jobs; `ledger_apply` writes those of chats, which a
-- chat job has already.
CREATE OR REPLACE FUNCTION write_metadata_pairs() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO metadata_pair (organization_id, name, value, created_at, id)
    SELECT NEW.organization_id, pair.key, pair.value, NEW.created_at, NEW.id
    FROM jsonb_each_text(NEW.metadata) AS pair ON CONFLICT DO NOTHING;
  RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER job_has_metadata AFTER INSERT ON job
  FOR EACH ROW WHEN (NEW.metadata IS NOT NULL) EXECUTE FUNCTION write_metadata_pairs();
