/** Renders batches in the format of OpenAI's API. */
import { z } from 'zod';
import { splitEndUser } from '../domain/end-users.ts';
import { toFileId } from './batch-files.ts';
import { batchFields, type BulkRecord } from './bulk-reads.ts';

const seconds = z.int().nullable();
const [batchError] = [batchFields.shape.errors.unwrap().element];

/** Schema of a batch. */
export const batchSchema = z
  .object({
    id: z.string().meta({ description: 'Id of the bulk job that the batch is.' }),
    object: z.literal('batch'),
    endpoint: batchFields.shape.endpoint,
    errors: z
      .object({ object: z.literal('list'), data: z.array(batchError) })
      .nullable()
      .meta({
        description:
          'Errors because of which the batch failed: the first 50 of its input file, or the reason for its end.',
      }),
    input_file_id: z.string(),
    completion_window: z.literal('24h'),
    status: z
      .enum([
        'failed',
        'in_progress',
        'finalizing',
        'completed',
        'expired',
        'cancelling',
        'cancelled',
      ])
      .meta({ id: 'BatchStatus' }),
    output_file_id: z.string().nullable(),
    error_file_id: z.string().nullable(),
    created_at: z.int(),
    in_progress_at: seconds,
    expires_at: seconds,
    finalizing_at: seconds,
    completed_at: seconds,
    failed_at: seconds,
    expired_at: seconds,
    cancelling_at: seconds,
    cancelled_at: seconds,
    request_counts: z.object({ total: z.int(), completed: z.int(), failed: z.int() }),
    metadata: z.record(z.string(), z.string()).nullable(),
  })
  .meta({ id: 'Batch' });
type Batch = z.infer<typeof batchSchema>;

/** Returns the status of a batch. */
function findStatus({ status, stopReason, completedAtMs }: BulkRecord): Batch['status'] {
  const isDone = completedAtMs !== null;
  if (status === 'completed') return 'completed';
  if (status === 'stopped') return isDone ? 'failed' : 'finalizing';
  if (status !== 'canceled') return 'in_progress';
  if (stopReason === 'INVALID_INPUT') return 'failed';
  if (stopReason === 'EXPIRED') return isDone ? 'expired' : 'finalizing';
  return isDone ? 'cancelled' : 'cancelling';
}

/** Returns the errors of a batch that has failed. */
function listErrors({ batch, status, stopReason }: BulkRecord): Batch['errors'] {
  if (batch?.errors) return { object: 'list', data: batch.errors };
  if (status !== 'stopped' || stopReason === null) return null;
  const message = `The batch was stopped (${stopReason}). Its bulk job can be resumed.`;
  return {
    object: 'list',
    data: [{ code: stopReason.toLowerCase(), line: null, message, param: null }],
  };
}

const toSeconds = (timeMs: number | null): number | null =>
  timeMs === null ? null : Math.floor(timeMs / 1000);

/** Renders a bulk job as the batch that it is; null if it is none. */
export function showBatch(bulk: BulkRecord): Batch | null {
  const { batch, total, completed, failed } = bulk;
  if (!batch) return null;
  const status = findStatus(bulk);
  const findFile = (kind: BulkRecord['files'][number]): string | null =>
    bulk.files.includes(kind) ? toFileId(bulk.id, kind) : null;
  const { metadata } = splitEndUser(bulk.metadata);
  const created = Math.floor(bulk.createdAtMs / 1000);
  const ended = toSeconds(bulk.completedAtMs);
  const canceled = toSeconds(bulk.canceledAtMs);
  const endedAs = (of: Batch['status']): number | null => (status === of ? ended : null);
  const hasExpired = bulk.stopReason === 'EXPIRED';
  return {
    id: bulk.id,
    object: 'batch',
    endpoint: batch.endpoint,
    errors: listErrors(bulk),
    input_file_id: batch.inputFileId,
    completion_window: '24h',
    status,
    output_file_id: findFile('output'),
    error_file_id: findFile('errors'),
    created_at: created,
    in_progress_at: batch.errors ? null : created,
    expires_at: toSeconds(bulk.expiresAtMs),
    finalizing_at: hasExpired ? canceled : endedAs('completed'),
    completed_at: endedAs('completed'),
    failed_at: endedAs('failed'),
    expired_at: endedAs('expired'),
    cancelling_at: hasExpired ? null : canceled,
    cancelled_at: endedAs('cancelled'),
    request_counts: { total, completed, failed },
    metadata: Object.keys(metadata).length > 0 ? metadata : null,
  };
}
