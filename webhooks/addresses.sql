-- Decides where webhooks are sent, and finds the webhooks of an event. This file is loaded before
-- ledger/archive.sql, whose functions use it: files are loaded in the order of their names.

-- Returns where an organization's events are sent: to the URL of the request or, if it has none, to
-- each endpoint. `events` are the chosen events without `prefix`, with which the types of endpoints
-- begin. The `subject_id` of a webhook ends with `suffix`.
CREATE FUNCTION webhook_addresses(of_organization text, own_url text, own_events text[], prefix text)
RETURNS TABLE (suffix text, endpoint_id text, url text, events text[]) LANGUAGE sql STABLE AS $$
  SELECT '', NULL, own_url, own_events WHERE own_url IS NOT NULL
  UNION ALL
  SELECT '.' || e.id, e.id, e.url, ARRAY(
    SELECT substr(type, length(prefix) + 1) FROM unnest(e.events) AS type WHERE starts_with(type, prefix))
  FROM webhook_endpoint e WHERE own_url IS NULL AND e.organization_id = of_organization
$$;

-- Returns the webhooks that report jobs, account notices and events of bulk jobs, by their ids.
CREATE FUNCTION webhooks_of(ids text[]) RETURNS SETOF webhook LANGUAGE sql STABLE AS $$
  SELECT * FROM webhook WHERE job_id = ANY (ids)
  UNION ALL SELECT * FROM webhook WHERE job_id IS NULL AND subject_id = ANY (ids)
  UNION ALL SELECT * FROM webhook WHERE job_id IS NULL AND endpoint_id IS NOT NULL AND split_part(subject_id, '.', 1) = ANY (ids)
$$;
