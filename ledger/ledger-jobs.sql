-- Writes the rows of Studio jobs, in the transaction of their ledger operations.

-- Inserts a job for each reservation of a batch, and stores the end of the job of each settlement.
-- Notifies the API processes of both, and of rejected reservations (executions/updates.ts).
CREATE FUNCTION ledger_write_jobs(operations jsonb, answers json[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  IF operations @? '$[*] ? (@.verb == "reserve").job' THEN
    INSERT INTO job (id, organization_id, key_id, type, model, provider, request, plan, request_id,
        metadata, recipe, steps, created_at, deadline_at)
      SELECT o->>'id', o->>'organizationId', j->>'keyId', j->>'type', j->>'model', j->>'provider',
        j->'request', j->'plan', j->>'requestId', j->'metadata', j->'plan'->>'recipe', j->'steps', (answer->>'createdAt')::timestamptz,
        -- The database's clock decides, as for every other time. The clock of the API may be wrong.
        coalesce((answer->>'createdAt')::timestamptz + (j->'plan'->>'deadlineMs')::float8 * interval '1 millisecond',
          (j->>'deadlineAt')::timestamptz)
      FROM ROWS FROM (jsonb_array_elements(operations), unnest(answers)) AS x(o, answer),
        LATERAL (SELECT o->'job' AS j) AS fields
      WHERE j IS NOT NULL AND answer->>'verdict' = 'reserved' AND answer->>'repeated' = 'false';
  END IF;
  IF operations @? '$[*] ? (@.verb == "settle").job' THEN
    UPDATE job SET status = j->>'status', outputs = nullif(j->'outputs', 'null'),
        steps = CASE WHEN j ? 'stepErrors' THEN (
          SELECT jsonb_agg(e.step || jsonb_strip_nulls(jsonb_build_object('error', j->'stepErrors'->(e.step->>'id')))
            ORDER BY e.number)
          FROM jsonb_array_elements(job.steps) WITH ORDINALITY AS e(step, number)) ELSE job.steps END,
        error = nullif(j->'error', 'null'), completed_at = r.settled_at, verifying = false,
        plan = NULL,
        approvals = (SELECT jsonb_object_agg(a.key, a.value #- '{end,changed}') FROM jsonb_each(job.approvals) AS a),
        -- The outputs of a completed job contain the errors of its other calls.
        unknown_outcome = jsonb_path_query_first(
          jsonb_build_array(j->'error') || jsonb_path_query_array(coalesce(j->'outputs', '[]'), '$[*].error'),
          '$[*].code ? (@ == "OUTCOME_UNKNOWN" || @ == "DEADLINE_EXCEEDED" || @ == "JOB_LOST")') #>> '{}'
      FROM ROWS FROM (jsonb_array_elements(operations), unnest(answers)) AS x(o, answer)
      JOIN reservation r ON r.id = o->>'id', LATERAL (SELECT o->'job' AS j) AS fields
      WHERE j IS NOT NULL AND answer->>'verdict' = 'settled' AND job.id = r.id;
    INSERT INTO artifact (storage_key, job_id, organization_id, content_type, size_bytes, sha256,
        content_credentials)
      SELECT f."storageKey", o->>'id', o->>'organizationId', f."contentType", f."sizeBytes", f.sha256,
        coalesce(f."contentCredentials", 'none')
      FROM ROWS FROM (jsonb_array_elements(operations), unnest(answers)) AS x(o, answer),
        jsonb_to_recordset(o->'job'->'artifacts') AS f(
          "storageKey" text, "contentType" text, "sizeBytes" bigint, sha256 text,
          "contentCredentials" text)
      WHERE answer->>'verdict' = 'settled';
  END IF;
  PERFORM pg_notify('studio_job', (CASE
        WHEN answer->>'verdict' = 'settled' THEN '{"event": "done"}'
        WHEN answer->>'repeated' = 'false' THEN '{"event": "reserved"}'
        ELSE jsonb_build_object('event', 'rejected', 'rejection', answer)
      END || jsonb_build_object('id', o->>'id', 'organizationId', o->>'organizationId'))::text)
    FROM ROWS FROM (jsonb_array_elements(operations), unnest(answers)) AS x(o, answer)
    -- A repeated operation sends no notification, because the first one has sent it. Every rejected
    -- reservation has the property `required` (domain/credits.ts).
    WHERE o ? 'job' AND (answer->>'verdict' = 'settled' OR answer->>'repeated' = 'false'
      OR answer->>'required' IS NOT NULL);
END $$;
