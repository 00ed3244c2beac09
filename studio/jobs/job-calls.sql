-- Calls of jobs to providers, with what their readers need beside the record: the step of a pipeline to
-- which a call belongs, the notifications of the provider, and the pause of the provider.
CREATE VIEW job_call AS
SELECT c.*,
  (SELECT s->>'id' FROM jsonb_array_elements(j.steps) AS s
    WHERE c.call_index - (s->'calls'->>0)::integer BETWEEN 0 AND (s->'calls'->>1)::integer - 1) AS step,
  -- A notification may arrive before the acceptance of its call is recorded. Its time is then that of the acceptance.
  (SELECT CASE WHEN min(n.received_at) < c.accepted_at THEN c.accepted_at ELSE min(n.received_at) END
    FROM provider_notification n
    WHERE n.job_id = c.job_id AND n.call_index = c.call_index) AS notified_at,
  (SELECT min(n.received_at) FROM provider_notification n
    WHERE n.job_id = c.job_id AND n.call_index = c.call_index AND n.state = 'late') AS late_notification_at,
  (SELECT n.operation_id FROM provider_notification n
    WHERE n.job_id = c.job_id AND n.call_index = c.call_index
    ORDER BY n.received_at DESC LIMIT 1) AS notified_operation_id,
  CASE WHEN p.provider IS NOT NULL THEN jsonb_build_object('actor', p.actor, 'reason', p.reason,
    'sinceMs', unix_ms(p.paused_at)) END AS pause
FROM provider_call c LEFT JOIN job j ON j.id = c.job_id LEFT JOIN provider_pause p ON p.provider = c.provider;
