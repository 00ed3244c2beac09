/**
 * Reads the request for a bulk job: JSON with `items`, or NDJSON with an item in each line and the
 * options in an optional first line.
 */
import { z } from 'zod';
import { fieldError, GatewayError } from '../../domain/errors.ts';
import { isRecord } from '../../domain/json.ts';
import { parseMetadata } from '../../domain/metadata.ts';
import { parseWith } from '../../domain/parsing.ts';
import {
  bulkItemsMax,
  bulkOptions,
  type BulkOptions,
  type BulkSubmission,
  type ReceivedItem,
} from '../../studio/bulk/bulk-intake.ts';
import { itemSchema } from '../../studio/bulk/bulk-items.ts';
import { parseWebhookUrl } from '../../studio/requests/webhook-fields.ts';
import type { Composition } from '../composition.ts';
import type { Context } from '../context.ts';
import { readJson } from '../http/json-body.ts';
import { isJsonLines, readJsonLines, type JsonLine } from '../http/json-lines.ts';
import { parseIdempotencyKey } from '../http/request-headers.ts';
import { closedSignal, countBytes } from '../middleware/request-shares.ts';

/** Maximum size of a JSON body in bytes, and of its values. Larger ones are sent as NDJSON. */
const jsonBytesMax = 4 * 1024 * 1024;
const jsonValuesMax = 200_000;

const optionsSchema = z.strictObject(bulkOptions);

/** Schema of the JSON body. */
export const bulkBody = z.strictObject({
  items: z.array(itemSchema).min(1).max(bulkItemsMax),
  ...bulkOptions,
});

/** Schema of a line of the NDJSON body. */
export const bulkLine = z.union([z.strictObject({ options: optionsSchema }), itemSchema]);

/**
 * Reads a request and passes it to `run`.
 * @throws GatewayError INVALID_REQUEST, UNSUPPORTED_MEDIA_TYPE, …, and the errors of `run`
 */
export async function readBulk<Result>(
  ctx: Context,
  services: Composition,
  run: (submission: BulkSubmission) => Promise<Result>,
): Promise<Result> {
  if (isJsonLines(ctx)) {
    return readJsonLines(ctx, services.storage, async (lines) => {
      const { options, items } = await readLines(lines);
      return run(buildSubmission(ctx, services, { options, items }));
    });
  }
  if (!ctx.is('json', '+json')) {
    const message = 'Send the body as application/json or application/x-ndjson.';
    throw new GatewayError('UNSUPPORTED_MEDIA_TYPE', message);
  }
  const limits = { bytesMax: jsonBytesMax, valuesMax: jsonValuesMax };
  const { items, ...rest } = await readJson(ctx, limits).catch((error: unknown) => {
    if (!(error instanceof GatewayError) || error.code !== 'PAYLOAD_TOO_LARGE') throw error;
    const message = `${error.message} Send more as application/x-ndjson, an item in each line.`;
    throw new GatewayError(error.code, message);
  });
  const options = parseWith(optionsSchema, rest);
  if (!Array.isArray(items))
    throw fieldError('INVALID_REQUEST', 'items', 'must be an array of items');
  const received = items.map((value: unknown, index): ReceivedItem => ({ index, value }));
  return run(buildSubmission(ctx, services, { options, items: received }));
}

function buildSubmission(
  ctx: Context,
  { outbound }: Composition,
  { options, items }: { options: BulkOptions; items: BulkSubmission['items'] },
): BulkSubmission {
  if (options.webhookEvents && options.webhookUrl === undefined) {
    throw fieldError('INVALID_REQUEST', 'webhookEvents', 'requires webhookUrl');
  }
  return {
    caller: ctx.state.caller,
    requestId: ctx.state.requestId,
    idempotencyKey: parseIdempotencyKey(ctx),
    options,
    metadata: parseMetadata(options.metadata),
    webhookUrl: parseWebhookUrl(options.webhookUrl, outbound),
    items,
    countCopied: (bytes) => countBytes(ctx, { kind: 'spool', bytes }),
    signal: closedSignal(ctx),
  };
}

/** Reads the options in the first line. The other lines are items. */
async function readLines(
  lines: AsyncIterable<JsonLine>,
): Promise<{ options: BulkOptions; items: AsyncIterable<ReceivedItem> }> {
  const iterator = lines[Symbol.asyncIterator]();
  const first = await iterator.next();
  const head = first.done || !('value' in first.value) ? undefined : first.value.value;
  const hasOptions = isRecord(head) && 'options' in head;
  const options = hasOptions
    ? parseWith(z.strictObject({ options: optionsSchema }), head).options
    : optionsSchema.parse({});
  async function* readItems(): AsyncGenerator<ReceivedItem> {
    let index = 0;
    let next = hasOptions ? await iterator.next() : first;
    for (; !next.done; next = await iterator.next()) {
      yield toItem(next.value, index);
      index += 1;
    }
  }
  return { options, items: readItems() };
}

function toItem(received: JsonLine, index: number): ReceivedItem {
  if ('value' in received) return { index, value: received.value };
  const details = received.error.details?.map(({ path, message }) => ({
    path: `items.${index}`,
    message: `line ${received.line} ${message}${path.startsWith('(line') ? '' : ` (${path})`}`,
  }));
  return { index, error: new GatewayError(received.error.code, undefined, { details }) };
}
