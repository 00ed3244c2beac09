/** Renders the results of bulk jobs as CSV. */
import { isRecord } from '../../domain/json.ts';
import type { BulkResult } from '../../bulk/bulk-view.ts';
import { escapeFormula, formatCsvRow } from '../http/csv.ts';

/** Columns of the results. */
export const resultColumns = [
  'index',
  'id',
  'round',
  'jobId',
  'status',
  'credits',
  'errorCode',
  'errorMessage',
  'urls',
  'data',
  'cursor',
  'chatId',
  'text',
  'inputTokens',
  'outputTokens',
];

/** Ids of items, none of which is a formula. Ids of the lines of a batch may be any text. */
const plainId = /^[\w.:/-]*$/;

/** Formats a result as a row. Its id stays as the caller has sent it, unless it is a formula. */
export function formatResultRow(result: BulkResult): string {
  const { index, id, round, jobId, status, credits, error, data, cursor } = result;
  const { chatId, text, tokens } = result;
  const failure = [error?.code, error && escapeFormula(error.message)];
  const files = [data && listUrls(data).join(' '), data && JSON.stringify(data)];
  return formatCsvRow([
    index,
    id === null || plainId.test(id) ? id : escapeFormula(id),
    round,
    jobId,
    status,
    credits,
    ...failure,
    ...files,
    Number(cursor),
    chatId,
    text === null ? null : escapeFormula(text),
    tokens?.input,
    tokens?.output,
  ]);
}

/** Lists the values of all fields named `url`. */
function listUrls(value: unknown): string[] {
  if (Array.isArray(value)) return value.flatMap(listUrls);
  if (!isRecord(value)) return [];
  return Object.entries(value).flatMap(([name, field]) =>
    name === 'url' && typeof field === 'string' ? [field] : listUrls(field),
  );
}
