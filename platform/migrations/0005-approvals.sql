-- Approvals between the steps of pipelines (activities/record-approval.ts).

-- Approvals for which steps have waited, by step id; null if none has.
ALTER TABLE job ADD COLUMN approvals jsonb;
-- True while a step waits for a decision.
ALTER TABLE job ADD COLUMN awaiting boolean NOT NULL DEFAULT false;
CREATE INDEX job_awaiting ON job (organization_id, created_at DESC, id DESC) WHERE awaiting;
