-- Records rejected requests, and removes the oldest ones of each organization beyond `rows_max`.
-- rejected: [{id, organizationId, keyId, endUser, createdAtMs, kind, path, model, status, errorCode, field, requestId,
-- durationMs}]
CREATE FUNCTION record_rejected_requests(rejected jsonb, rows_max integer) RETURNS void LANGUAGE plpgsql AS $$
DECLARE account_id text;
BEGIN
  FOR account_id IN SELECT DISTINCT r->>'organizationId' FROM jsonb_array_elements(rejected) AS r ORDER BY 1 LOOP
    -- Another process that records requests of the organization waits, so that both see all rows.
    PERFORM pg_advisory_xact_lock(hashtextextended('rejected_request ' || account_id, 0));
    INSERT INTO rejected_request (id, organization_id, key_id, created_at, kind, path, model, status, error_code, field,
        request_id, duration_ms, end_user)
      SELECT n.id, account_id, n."keyId", timestamp_of_ms(n."createdAtMs"), n.kind, n.path, n.model, n.status,
        n."errorCode", n.field, n."requestId", n."durationMs", n."endUser"
      FROM jsonb_to_recordset(rejected) AS n("organizationId" text, id text, "keyId" text, "createdAtMs" bigint, kind text,
        path text, model text, status integer, "errorCode" text, field text, "requestId" text, "durationMs" integer, "endUser" text)
      WHERE n."organizationId" = account_id ON CONFLICT DO NOTHING;
    DELETE FROM rejected_request WHERE organization_id = account_id AND (created_at, id) <= (
      SELECT o.created_at, o.id FROM rejected_request o WHERE o.organization_id = account_id
      ORDER BY o.created_at DESC, o.id DESC OFFSET rows_max LIMIT 1);
  END LOOP;
END $$;
