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

-- Creates a new secret of a webhook endpoint, as rotate_webhook_secret does for an organization.
CREATE FUNCTION rotate_endpoint_secret(of_endpoint text, overlap interval, active_max integer)
RETURNS void LANGUAGE sql AS $$
  UPDATE webhook_endpoint SET updated_at = clock_timestamp(), secrets = (
    WITH secret AS (SELECT * FROM jsonb_to_recordset(secrets) AS s (generation integer, retires_at timestamptz)),
      signing AS (
        SELECT max(generation) + 1 AS generation, NULL::timestamptz AS retires_at FROM secret
        UNION ALL SELECT generation, least(retires_at, clock_timestamp() + overlap) FROM secret
        WHERE coalesce(retires_at > clock_timestamp(), true) ORDER BY generation DESC LIMIT active_max)
    SELECT jsonb_agg(signing) FROM signing)
  WHERE id = of_endpoint
$$;

-- Webhooks that are not delivered although their event has happened, with its time. Those of paused
-- endpoints wait, and those of deleted ones are no longer sent. The webhook of a job's start is
-- included once an attempt to send it has begun or a paused endpoint has delayed it.
CREATE VIEW undelivered_webhook AS
  SELECT w.*, CASE split_part(w.subject_id, '_', 1) WHEN 'job' THEN j.completed_at
    ELSE coalesce(n.created_at, e.created_at, w.created_at) END AS happened_at
  FROM webhook w LEFT JOIN job j ON j.id = w.job_id
    LEFT JOIN account_notice n ON n.id = split_part(w.subject_id, '.', 1)
    LEFT JOIN bulk_event e ON e.id = split_part(w.subject_id, '.', 1)
  WHERE w.state IN ('waiting', 'delivering')
    AND CASE split_part(w.subject_id, '_', 1) WHEN 'job' THEN j.status <> 'open'
      WHEN 'start' THEN j.id IS NOT NULL AND (w.state = 'delivering' OR w.overdue_at IS NOT NULL)
      WHEN 'wait' THEN true ELSE coalesce(n.id, e.id) IS NOT NULL END
    AND (w.endpoint_id IS NULL
      OR EXISTS (SELECT FROM webhook_endpoint p WHERE p.id = w.endpoint_id AND NOT p.paused));
