-- Webhooks of steps that await an approval (activities/record-approval.ts): their subject ids are
-- `wait_`, the digits of the job id, `_` and the id of the step. The id of a webhook endpoint may follow.
ALTER TABLE webhook ALTER COLUMN job_id SET EXPRESSION AS (CASE
  WHEN starts_with(subject_id, 'start_') THEN 'job_' || substr(subject_id, 7, 32)
  WHEN starts_with(subject_id, 'wait_') THEN 'job_' || substr(subject_id, 6, 32)
  WHEN starts_with(subject_id, 'job_') THEN left(subject_id, 36) END);

-- Running items of a bulk job whose jobs await an approval, as last counted by its workflow.
ALTER TABLE bulk ADD COLUMN awaiting integer NOT NULL DEFAULT 0;
