/**
 * Reads the request for a bulk job: JSON with `items`, or NDJSON with an item in each line and the
 * options in an optional first line.
 */
import { z } from 'zod';
import { fieldError, GatewayError, prefixError } from '../../domain/errors.ts';
import { isRecord } from '../../domain/json.ts';
import { parseMetadata } from '../../domain/metadata.ts';
import { parseWith } from '../../domain/parsing.ts';
import {
  bulkItemsMax,
  bulkOptions,
  type BulkOptions,
  type BulkSubmission,
  type ReceivedItem,
} from '../../bulk/bulk-intake.ts';
import { itemSchema, type ItemDefaults } from '../../bulk/bulk-items.ts';
import { exactFields } from '../../chat/formats/chat-fields.ts';
import { recipeFields, type Recipes } from '../../studio/requests/recipe-versions.ts';
import { parseWebhookUrl } from '../../studio/requests/webhook-fields.ts';
import type { Composition } from '../composition.ts';
import type { Context } from '../context.ts';
import { readJson } from '../http/json-body.ts';
import { isJsonLines, readJsonLines, type JsonLine } from '../http/json-lines.ts';
import { splitEndUser } from '../../domain/end-users.ts';
import { completeEndUser, parseIdempotencyKey } from '../http/request-headers.ts';
import { closedSignal, countBytes } from '../middleware/request-shares.ts';

/** Maximum size of a JSON body in bytes, and of its values. Larger ones are sent as NDJSON. */
const jsonBytesMax = 4 * 1024 * 1024;
const jsonValuesMax = 200_000;

const optionsSchema = z.strictObject(bulkOptions);

/** Schema of the first line, before its recipe completes the options. */
const headSchema = z.strictObject({ options: z.record(z.string(), z.unknown()) });

/** Item before its recipe completes it. */
type SentItem = { index: number } & ({ value: unknown } | { error: GatewayError });
type SentItems = AsyncIterable<SentItem> | Iterable<SentItem>;

/** Schema of the JSON body. */
export const bulkBody = z.strictObject({
  items: z.array(itemSchema).min(1).max(bulkItemsMax),
  ...bulkOptions,
  ...recipeFields,
});

/** Schema of a line of the NDJSON body. */
export const bulkLine = z.union([
  z.strictObject({ options: optionsSchema.extend(recipeFields) }),
  itemSchema,
]);

/**
 * Reads a request and passes it to `run`.
 * @throws GatewayError INVALID_REQUEST, UNSUPPORTED_MEDIA_TYPE, …, and the errors of `run`
 */
export async function readBulk<Result>(
  ctx: Context,
  services: Composition,
  run: (submission: BulkSubmission) => Promise<Result>,
): Promise<Result> {
  const { organizationId } = ctx.state.caller;
  const completeBody = (body: Record<string, unknown>) =>
    services.recipes.complete(organizationId, 'bulk', body);
  if (isJsonLines(ctx)) {
    return readJsonLines(ctx, services.storage, async (lines) => {
      const { head, items } = await readLines(lines);
      const { body, recipe } = await completeBody(head).catch((error: unknown) => {
        throw prefixError(error, 'options');
      });
      const { items: saved, ...rest } = body;
      const { options } = parseWith(z.strictObject({ options: optionsSchema }), { options: rest });
      // Lines replace the items of the recipe, as fields replace its other fields.
      const received = items ?? (Array.isArray(saved) ? saved.map(toReceived) : []);
      return run(buildSubmission(ctx, services, { options, recipe, items: received }));
    });
  }
  if (!ctx.is('json', '+json')) {
    const message = 'Send the body as application/json or application/x-ndjson.';
    throw new GatewayError('UNSUPPORTED_MEDIA_TYPE', message);
  }
  const limits = { bytesMax: jsonBytesMax, valuesMax: jsonValuesMax, exactFields };
  const sent = await readJson(ctx, limits).catch((error: unknown) => {
    if (!(error instanceof GatewayError) || error.code !== 'PAYLOAD_TOO_LARGE') throw error;
    const message = `${error.message} Send more as application/x-ndjson, an item in each line.`;
    throw new GatewayError(error.code, message);
  });
  const {
    body: { items, ...rest },
    recipe,
  } = await completeBody(sent);
  const options = parseWith(optionsSchema, rest);
  if (!Array.isArray(items))
    throw fieldError('INVALID_REQUEST', 'items', 'must be an array of items');
  const received = items.map(toReceived);
  return run(buildSubmission(ctx, services, { options, recipe, items: received }));
}

const toReceived = (value: unknown, index: number): SentItem => ({ index, value });

/** Completes items by the recipes that their bodies, or the shared fields, name. */
async function* completeItems(
  items: SentItems,
  { defaults, recipe }: { defaults: ItemDefaults; recipe: string | null },
  complete: ReturnType<Recipes['completeMany']>,
): AsyncGenerator<ReceivedItem> {
  for await (const item of items) {
    if ('error' in item) {
      yield item;
      continue;
    }
    const sent = isRecord(item.value) ? item.value : { body: item.value };
    const { use = defaults.use, body: own = {} } = sent;
    // A body that is no object is rejected with its item.
    const reference = isRecord(own) ? (own['recipe'] ?? defaults.body?.['recipe']) : undefined;
    if (!isRecord(own) || reference === undefined) {
      yield { ...item, recipe };
      continue;
    }
    try {
      const fields = { ...defaults.body, ...own, recipe: reference };
      const completed = await complete(typeof use === 'string' ? use : undefined, fields);
      const value = { ...sent, body: completed.body };
      yield { index: item.index, value, recipe: completed.recipe };
    } catch (error) {
      const prefixed = prefixError(error, `items.${item.index}.body`);
      if (!(prefixed instanceof GatewayError)) throw prefixed;
      yield { index: item.index, error: prefixed };
    }
  }
}

function buildSubmission(
  ctx: Context,
  { outbound, recipes }: Composition,
  { options, recipe, items }: { options: BulkOptions; recipe: string | null; items: SentItems },
): BulkSubmission {
  if (options.webhookEvents && options.webhookUrl === undefined) {
    throw fieldError('INVALID_REQUEST', 'webhookEvents', 'requires webhookUrl');
  }
  const { caller } = ctx.state;
  const { defaults = {} } = options;
  const metadata = completeEndUser(ctx, parseMetadata(options));
  const { endUser } = splitEndUser(metadata);
  // Items that name a recipe contain it by now.
  const { recipe: _, ...body } = defaults.body ?? {};
  return {
    caller,
    requestId: ctx.state.requestId,
    idempotencyKey: parseIdempotencyKey(ctx),
    options: {
      ...options,
      // The Idempotency-Key identifies the end user too.
      ...(endUser !== null && { endUser }),
      ...(defaults.body?.['recipe'] !== undefined && { defaults: { ...defaults, body } }),
    },
    metadata,
    webhookUrl: parseWebhookUrl(options.webhookUrl, outbound),
    batch: null,
    recipe,
    items: completeItems(items, { defaults, recipe }, recipes.completeMany(caller.organizationId)),
    countCopied: (bytes) => countBytes(ctx, { kind: 'spool', bytes }),
    signal: closedSignal(ctx),
  };
}

/** Reads the options in the first line. The other lines are items; undefined if there are none. */
async function readLines(
  lines: AsyncIterable<JsonLine>,
): Promise<{ head: Record<string, unknown>; items: AsyncIterable<SentItem> | undefined }> {
  const iterator = lines[Symbol.asyncIterator]();
  const first = await iterator.next();
  const line = first.done || !('value' in first.value) ? undefined : first.value.value;
  const hasOptions = isRecord(line) && 'options' in line;
  const { options: head = {} } = hasOptions ? parseWith(headSchema, line) : {};
  let next = hasOptions ? await iterator.next() : first;
  async function* readItems(): AsyncGenerator<SentItem> {
    for (let index = 0; !next.done; index += 1) {
      yield toItem(next.value, index);
      next = await iterator.next();
    }
  }
  return { head, items: next.done ? undefined : readItems() };
}

function toItem(received: JsonLine, index: number): SentItem {
  if ('value' in received) return { index, value: received.value };
  const details = received.error.details?.map(({ path, message }) => ({
    path: `items.${index}`,
    message: `line ${received.line} ${message}${path.startsWith('(line') ? '' : ` (${path})`}`,
  }));
  return { index, error: new GatewayError(received.error.code, undefined, { details }) };
}
