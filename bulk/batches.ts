/**
 * Accepts batches of OpenAI's API. A batch is a bulk job whose items are the lines of an uploaded file. The
 * lines are checked before anything is stored: if one is no request, the batch fails with the errors of the lines. A
 * request that its endpoint would reject is stored as a failed item.
 */
import { GatewayError } from '../domain/errors.ts';
import type { RequestCaller } from '../identity/access.ts';
import { isKeyUsed } from '../ledger/claims.ts';
import type { DatabasePool } from '../platform/database.ts';
import { paceWork } from '../platform/work-turns.ts';
import {
  acceptBulk,
  bulkItemsMax,
  type AcceptedBulk,
  type BulkSubmission,
  type ReceivedItem,
} from './bulk-intake.ts';
import { useOfBatch, type BatchFields } from './bulk-reads.ts';

/** Line of an input file: its number and its JSON object, or its error. */
type InputLine = { line: number } & ({ value: Record<string, unknown> } | { error: GatewayError });

/** Opens an input file. @throws GatewayError INVALID_REQUEST if the organization has no such file */
type OpenLines = () => AsyncIterable<InputLine>;

/** Request for a batch. */
export type BatchSubmission = Omit<BulkSubmission, 'items' | 'recipe' | 'webhookUrl'> & {
  batch: BatchFields;
};

type BatchError = NonNullable<BatchFields['errors']>[number];

/** Maximum number of chats of a batch that run at the same time: a quarter of the places of a provider. */
export const batchConcurrency = 32;
/** Maximum number of errors that a batch lists. */
const errorsMax = 50;
const customIdLengthMax = 512;

/** Checks the lines of an input file, and returns the first errors. */
async function checkLines(
  lines: AsyncIterable<InputLine>,
  { batch, caller }: { batch: BatchFields; caller: RequestCaller },
): Promise<BatchError[]> {
  const errors: BatchError[] = [];
  const lineOfId = new Map<string, number>();
  const pace = paceWork(caller.organizationId);
  let count = 0;
  for await (const line of lines) {
    await pace();
    count += 1;
    if (count > bulkItemsMax) {
      const message = `must have at most ${bulkItemsMax} requests in a batch`;
      return [{ code: 'too_many_tasks', line: line.line, message, param: null }];
    }
    if (errors.length < errorsMax) errors.push(...findErrors(line, batch, lineOfId));
  }
  if (count > 0) return errors.slice(0, errorsMax);
  const message = 'must contain at least one request';
  return [{ code: 'empty_file', line: null, message, param: null }];
}

/** Yields the errors of a line. */
function* findErrors(
  received: InputLine,
  { endpoint }: BatchFields,
  lineOfId: Map<string, number>,
): Generator<BatchError> {
  const { line } = received;
  if ('error' in received) {
    const [detail] = received.error.details ?? [];
    const isLine = detail?.path.startsWith('(') ?? true;
    const message = isLine ? (detail?.message ?? '') : received.error.message;
    const param = isLine ? null : (detail?.path ?? null);
    yield { code: 'invalid_json_line', line, message, param };
    return;
  }
  const { custom_id: id, method, url, body } = received.value;
  const fields: [name: string, isValid: boolean, code: string, rule: string][] = [
    [
      'custom_id',
      typeof id === 'string' && id.length > 0 && id.length <= customIdLengthMax,
      'invalid_custom_id',
      `must be a text of 1–${customIdLengthMax} characters`,
    ],
    ['method', method === 'POST', 'invalid_method', 'must be POST'],
    ['url', url === endpoint, 'url_mismatch', `must be ${endpoint}, the endpoint of the batch`],
    [
      'body',
      typeof body === 'object' && body !== null && !Array.isArray(body),
      'invalid_body',
      'must be an object',
    ],
  ];
  for (const [param, isValid, code, rule] of fields) {
    if (isValid) continue;
    const isMissing = received.value[param] === undefined;
    yield {
      code: isMissing ? 'missing_required_parameter' : code,
      line,
      message: `${param}: ${isMissing ? 'is required; it ' : ''}${rule}`,
      param,
    };
  }
  if (typeof id !== 'string') return;
  const earlier = lineOfId.get(id);
  if (earlier === undefined) lineOfId.set(id, line);
  else {
    const message = `custom_id: is also that of line ${earlier}; each must be unique in a batch`;
    yield { code: 'duplicate_custom_id', line, message, param: 'custom_id' };
  }
}

/** Yields the items of an input file whose lines were checked. */
async function* toItems(openLines: OpenLines, batch: BatchFields): AsyncGenerator<ReceivedItem> {
  let index = 0;
  for await (const line of openLines()) {
    // The file was checked before, and files do not change.
    if ('error' in line) throw line.error;
    const { custom_id: customId, body } = line.value;
    const value = { use: useOfBatch(batch), body };
    yield { index, value, recipe: null, customId: String(customId) };
    index += 1;
  }
}

/**
 * Accepts a batch, also if its input file is invalid: then the batch has failed.
 * @throws GatewayError like the endpoint of bulk jobs
 */
export async function acceptBatch(
  request: BatchSubmission,
  openLines: OpenLines,
  deps: Parameters<typeof acceptBulk>[1] & { pool: DatabasePool },
): Promise<AcceptedBulk> {
  const { caller, idempotencyKey, batch } = request;
  const isRepeated = await isKeyUsed(deps.pool, caller.organizationId, idempotencyKey);
  // A repeated request gets the first answer, also if its file was deleted.
  const errors = isRepeated ? [] : await checkLines(openLines(), { batch, caller });
  if (request.signal.aborted)
    throw new GatewayError('CANCELED', 'The client closed the connection.');
  return acceptBulk(
    {
      ...request,
      recipe: null,
      webhookUrl: null,
      batch: { ...batch, ...(errors.length > 0 && { errors }) },
      items: toItems(openLines, batch),
    },
    deps,
  );
}
