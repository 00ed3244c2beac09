/** What lists of jobs and of usage can be narrowed by: fields of their queries. */
import { z } from 'zod';
import type { RecordFilter } from '../../activities/jobs/record-conditions.ts';
import { metadataFilter } from '../middleware/metadata.ts';
import { idField } from './fields.ts';

const time = z.iso.datetime({ offset: true }).optional();

/** The fields. */
export const recordFilter = {
  model: z.string().min(1).max(256).optional().meta({ description: 'Only this model.' }),
  keyId: idField('key').optional().meta({ description: 'Only requests of this key.' }),
  after: time.meta({ description: 'Only what was created strictly after this time.' }),
  before: time.meta({ description: 'Only what was created strictly before this time.' }),
  metadata: metadataFilter,
};

/** A type of job in a query. */
export const jobType = z.string().regex(/^[A-Za-z]{1,64}$/, 'must be a type of job');

const filter = z.object(recordFilter);

/** The fields as they are searched by. */
export function recordFilterOf({
  model,
  keyId,
  after,
  before,
  metadata,
}: z.infer<typeof filter>): RecordFilter {
  return { model, keyId, metadata, afterMs: msOf(after), beforeMs: msOf(before) };
}

function msOf(text: string | undefined): number | undefined {
  return text === undefined ? undefined : Date.parse(text);
}
