-- Rotates the secrets that sign an organization's webhooks. Each secret is identified by a
-- generation number.

-- Creates a new generation and returns its number. Earlier generations continue to sign for the
-- overlap; at most `live_max` generations sign at the same time.
CREATE FUNCTION rotate_webhook_secret(of_organization text, overlap interval, live_max integer)
RETURNS integer LANGUAGE plpgsql AS $$
DECLARE newest integer; at timestamptz;
BEGIN
  PERFORM FROM organization WHERE id = of_organization FOR NO KEY UPDATE;
  at := clock_timestamp();
  INSERT INTO webhook_secret (organization_id, generation) VALUES (of_organization, 1)
    ON CONFLICT DO NOTHING;
  SELECT max(generation) INTO newest FROM webhook_secret WHERE organization_id = of_organization;
  UPDATE webhook_secret SET retires_at = least(coalesce(retires_at, at + overlap), at + overlap)
    WHERE organization_id = of_organization AND (retires_at IS NULL OR retires_at > at);
  UPDATE webhook_secret SET retires_at = at
    WHERE organization_id = of_organization AND retires_at > at AND generation <= newest + 1 - live_max;
  INSERT INTO webhook_secret (organization_id, generation) VALUES (of_organization, newest + 1);
  RETURN newest + 1;
END $$;
