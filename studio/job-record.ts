/** A job as its row tells it: what every view of a job is made from. */
import type { ErrorCode } from '../domain/errors.ts';
import type { Json, JsonObject } from '../domain/json.ts';
import type { CallOutputs } from '../jobs/job-plan.ts';

/** Content of JSON artifacts by storage key. */
export type Documents = ReadonlyMap<string, Json>;

/** A job with its billing and the balance of its organization; times are Unix ms, amounts micro-credits. */
export interface JobRecord {
  id: string;
  key_id: string;
  type: string;
  model: string | null;
  status: 'queued' | 'completed' | 'failed' | 'canceled';
  verifying: boolean;
  request: JsonObject;
  /** The caller's own pairs; null where there are none. */
  metadata: Record<string, string> | null;
  outputs: CallOutputs[] | null;
  error: { code: ErrorCode; message: string } | null;
  request_id: string;
  created_at: number;
  deadline_at: number;
  completed_at: number | null;
  /** When its owner deleted what it made. */
  media_deleted_at: number | null;
  /** When the first call was about to be sent. */
  started_at: number | null;
  call_states: string[] | null;
  progress: Json;
  billing_state: 'reserved' | 'charged' | 'released';
  reserved: number;
  charged: number | null;
  available: number;
  /** JSON artifacts of a finished job, loaded for a job that is looked at by itself. */
  documents?: Documents;
}
