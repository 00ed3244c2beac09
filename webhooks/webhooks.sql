-- Rotates the secrets that sign an organization's webhooks. Each secret is identified by a
-- generation number.

-- Creates a new generation and returns its number. Earlier generations continue to sign for the
-- duration `overlap`; at most `active_max` generations sign at the same time.
CREATE FUNCTION rotate_webhook_secret(of_organization text, overlap interval, active_max integer)
RETURNS integer LANGUAGE plpgsql AS $$
DECLARE newest_generation integer; rotated_at timestamptz;
BEGIN
  PERFORM FROM organization WHERE id = of_organization FOR NO KEY UPDATE;
  rotated_at := clock_timestamp();
  INSERT INTO webhook_secret (organization_id, generation) VALUES (of_organization, 1)
    ON CONFLICT DO NOTHING;
  SELECT max(generation) INTO newest_generation FROM webhook_secret
    WHERE organization_id = of_organization;
  UPDATE webhook_secret
    SET retires_at = least(coalesce(retires_at, rotated_at + overlap), rotated_at + overlap)
    WHERE organization_id = of_organization AND (retires_at IS NULL OR retires_at > rotated_at);
  UPDATE webhook_secret SET retires_at = rotated_at
    WHERE organization_id = of_organization AND retires_at > rotated_at
      AND generation <= newest_generation + 1 - active_max;
  INSERT INTO webhook_secret (organization_id, generation)
    VALUES (of_organization, newest_generation + 1);
  RETURN newest_generation + 1;
END $$;
