/**
 * Items of a bulk job: checks and prices them when the bulk job is accepted, with the code of the
 * single endpoints, and plans their jobs when they are started.
 */
import { z } from 'zod';
import { assert, fieldError, GatewayError, prefixError, renameFields } from '../domain/errors.ts';
import { toPlainNumbers } from '../domain/exact-numbers.ts';
import { asRecord, type JsonObject } from '../domain/json.ts';
import { webhookEvents } from '../domain/job-contract.ts';
import type { JobPlan } from '../domain/job-plan.ts';
import { addShared, parseMetadata } from '../domain/metadata.ts';
import { parseWith } from '../domain/parsing.ts';
import { chatUses, checkItemChat, type ItemChatServices } from '../chat/item-chats.ts';
import { authorize, type RequestCaller } from '../identity/access.ts';
import type { Prices } from '../ledger/price-book.ts';
import type { Outbound } from '../platform/outbound.ts';
import { runInTurn } from '../platform/work-turns.ts';
import type { Webhooks } from '../webhooks/webhooks.ts';
import {
  findByUse,
  getRequiredScope,
  useOf,
  type Capability,
} from '../studio/capabilities/capability.ts';
import { itemBody } from '../studio/capabilities/request-fields.ts';
import { findCapability, jobKinds } from '../studio/pipelines/job-kinds.ts';
import {
  priceRequest,
  sumBeforeApproval,
  type PricingServices,
} from '../studio/requests/estimates.ts';
import { calculateChargeMaxMicro, completePlan, priceDraft } from '../studio/requests/planner.ts';
import {
  authorizeRequest,
  draftRequest,
  measurePrices,
  type ParsedRequest,
  type StudioRequest,
} from '../studio/requests/request-draft.ts';
import { parseWebhook } from '../studio/requests/webhook-fields.ts';

/** Services that check, price and plan items. */
export interface ItemServices extends PricingServices, ItemChatServices {
  outbound: Outbound;
  webhooks: Webhooks;
}

const useNames = [...jobKinds.map(useOf), ...chatUses.keys()];
const use = z.enum(useNames).meta({
  description:
    'Endpoint of the item: its path after `/studio/`, or that of a chat endpoint after `/api/v1/`.',
  example: 'image/generate',
});
const body = itemBody.meta({
  description:
    'Request body of this endpoint. `async` is not allowed; `webhookUrl`, `metadata` and `endUser` belong to the job of this item. A chat may not have `webhookUrl`, `stream`, `background`, `store` or several answers.',
});

/** Schema of an item as callers send it. */
export const itemSchema = z.strictObject({
  id: z
    .string()
    .max(128)
    .regex(/^[\w.:/-]{1,128}$/, 'must be 1–128 characters of A–Z a–z 0–9 _ . : / -')
    .optional()
    .meta({ description: 'Id of your own, unique in the bulk job; results contain it.' }),
  use: use.optional(),
  body: body.optional(),
});

/** Schema of the fields that items share. Fields of an item replace those of the same name. */
export const defaultsSchema = z.strictObject({ use: use.optional(), body: body.optional() });
export type ItemDefaults = z.infer<typeof defaultsSchema>;

/** Schema of a stored item, from which its request is built. */
export const storedItem = z.object({
  index: z.number(),
  type: z.string(),
  request: z.record(z.string(), z.json()),
  webhook: z
    .object({ url: z.string(), events: z.array(z.enum(webhookEvents)).optional() })
    .nullable(),
  metadata: z.record(z.string(), z.string()).nullable(),
  recipe: z.string().nullable(),
});
/** Item as it is stored. `type`: the job type of its capability, or the endpoint of a chat. */
export type StoredItem = z.infer<typeof storedItem>;

/** Item that was checked and priced. */
export interface PricedItem extends StoredItem {
  itemId: string | null;
  use: string;
  /** Maximum charge in micro-credits. */
  priceMicro: number;
  /** Minimum of free micro-credits with which a chat starts; null for an item with a job. */
  chatMinMicro: number | null;
  /** Most that it costs before its first decision, in micro-credits. */
  beforeApprovalMicro: number;
  /** Error of an invalid line of a batch, which is stored as failed. */
  failure?: { code: string; message: string; param?: string };
}

/** Bulk job to which an item belongs. */
export interface ItemOwner {
  caller: RequestCaller;
  defaults: ItemDefaults;
  metadata: Record<string, string> | null;
  countCopied: (bytes: number) => void;
  prices: Prices;
}

/**
 * Checks and prices an item. Starts nothing and stores nothing.
 * @throws GatewayError; the paths of its details begin with `items.` and the index
 */
export async function priceItem(
  {
    index,
    value,
    recipe,
    customId,
  }: { index: number; value: unknown; recipe: string | null; customId?: string },
  owner: ItemOwner,
  services: ItemServices,
): Promise<PricedItem> {
  const path = `items.${index}`;
  const item = await withPrefix(path, () => readItem(value, owner));
  const { id = customId, name, capability, fields: sent } = item;
  // Only chats with tools keep the digits of numbers.
  const keepsDigits = !capability && name !== 'embeddings';
  const fields = keepsDigits ? sent : toPlainNumbers(sent);
  return withPrefix(`${path}.body`, async () => {
    if (!capability)
      return priceChat({ index, name, id: id ?? null, fields, recipe }, owner, services);
    const parsed = parseBody({ capability, fields }, owner, services);
    const stored: StoredItem = { index, type: capability.type, ...parsed, recipe };
    const request = buildRequest(stored, owner);
    const { price, steps } = await priceRequest(request, services, owner.prices);
    const priceMicro = calculateChargeMaxMicro(price);
    const beforeApprovalMicro = steps?.some(({ approval }) => approval)
      ? sumBeforeApproval(steps, price.steps)
      : priceMicro;
    const ids = { itemId: id ?? null, use: name };
    return { ...stored, ...ids, priceMicro, chatMinMicro: null, beforeApprovalMicro };
  });
}

/** Body of an item that is a chat. */
interface ChatFields {
  index: number;
  name: string;
  id: string | null;
  fields: JsonObject;
  recipe: string | null;
}

/**
 * Checks and prices a chat. Its request is stored as text, because numbers in tools keep their digits, with the
 * models that the key must be allowed to use.
 */
async function priceChat(
  { index, name, id, fields, recipe }: ChatFields,
  { caller, metadata: shared, prices }: ItemOwner,
  services: ItemServices,
): Promise<PricedItem> {
  const chatUse = chatUses.get(name);
  assert(chatUse, `${name} is no use of an item`);
  const checked = await checkItemChat(
    chatUse,
    { fields, shared, caller, pricedAtMs: prices.atMs },
    services,
  );
  const { request, metadata, leastMicro, priceMicro } = checked;
  return {
    index,
    type: name,
    request: {
      model: request.model,
      fallbacks: request.fallbacks ?? [],
      chat: JSON.stringify(request),
    },
    webhook: null,
    metadata,
    recipe,
    itemId: id,
    use: name,
    priceMicro,
    chatMinMicro: leastMicro,
    beforeApprovalMicro: priceMicro,
  };
}

/** Returns an invalid line of a batch as an item that has failed, with the error of its endpoint. */
export function toFailedItem(
  { index, itemId, type }: { index: number; itemId: string | undefined; type: string },
  error: GatewayError,
): PricedItem {
  const own = renameFields(error, (path) => path.replace(/^items\.\d+\.(?:body\.?)?/, ''));
  assert(own instanceof GatewayError, 'the error of an item is no GatewayError');
  const { path } = own.details?.[0] ?? {};
  // An error without a field begins with the path of the item.
  const message = own.message.replace(/^(?:items\.\d+(?:\.body)?)?: /, '');
  return {
    index,
    type,
    request: {},
    webhook: null,
    metadata: null,
    recipe: null,
    itemId: itemId ?? null,
    use: type,
    priceMicro: 0,
    chatMinMicro: 0,
    beforeApprovalMicro: 0,
    failure: { code: own.code, message, ...(path && { param: path }) },
  };
}

/** Returns the number of steps of an item that has not been checked: those of a pipeline, or one. */
export function countSteps(value: unknown, defaults: ItemDefaults = {}): number {
  const { steps } = { ...defaults.body, ...asRecord(asRecord(value)['body']) };
  return Array.isArray(steps) ? Math.max(1, steps.length) : 1;
}

/** Reads the fields of an item, and finds its capability; undefined for a chat. */
function readItem(value: unknown, { defaults, caller }: ItemOwner) {
  const { id, use: ownUse, body: ownBody } = parseWith(itemSchema, value);
  const name = ownUse ?? defaults.use;
  if (name === undefined)
    throw fieldError('INVALID_REQUEST', 'use', `is required; allowed are ${useNames.join(', ')}`);
  const capability = findByUse(jobKinds, name);
  authorize(caller, capability ? getRequiredScope(capability) : 'chat');
  return { id, name, capability, fields: { ...defaults.body, ...ownBody } };
}

function parseBody(
  { capability, fields }: { capability: Capability; fields: JsonObject },
  { metadata: shared }: ItemOwner,
  { outbound }: ItemServices,
): Pick<StoredItem, 'request' | 'webhook' | 'metadata'> {
  const { webhookUrl, webhookEvents: events, metadata, endUser, ...sent } = fields;
  const request = parseWith(capability.request, sent);
  const webhook = parseWebhook({ webhookUrl, webhookEvents: events }, outbound);
  const own = parseMetadata({ metadata, endUser });
  return {
    request,
    webhook: webhook && { url: webhook.url, ...(webhook.events && { events: webhook.events }) },
    metadata: addShared(shared, own),
  };
}

/** Runs a function whose errors are about the value with the path `prefix`. */
async function withPrefix<Result>(
  prefix: string,
  run: () => Result | Promise<Result>,
): Promise<Result> {
  try {
    return await run();
  } catch (error) {
    throw prefixError(error, prefix);
  }
}

/** Builds the request of a stored item. */
export function buildRequest(
  { type, request, webhook, metadata, recipe }: Omit<StoredItem, 'index'>,
  sender: Pick<StudioRequest, 'caller' | 'countCopied'>,
): StudioRequest {
  const capability = findCapability(type);
  if (!capability) throw new GatewayError('SERVICE_UNAVAILABLE', `This gateway has no ${type}.`);
  const parsedRequest: ParsedRequest = {
    request,
    webhook: webhook && { url: webhook.url, events: webhook.events },
    metadata,
    recipe,
  };
  return { ...sender, capability, parsedRequest };
}

/** Job of an item that is about to be started. */
export interface PlannedItem {
  index: number;
  plan: JobPlan;
  /** Maximum charge in micro-credits. */
  priceMicro: number;
  webhook: ParsedRequest['webhook'];
  /** Removes the copies of the inputs if the item is not started. */
  discard: () => Promise<void>;
}

/** Ids and caller of an item that is planned. */
interface PlanningContext {
  jobId: string;
  requestId: string;
  caller: RequestCaller;
  /** Time at which the bulk job was accepted, whose prices apply, in Unix milliseconds. */
  pricedAtMs: number;
}

/**
 * Plans the job of a stored item. Files and prices are measured again, because the provider receives
 * exactly the input on which the price was measured.
 * @throws GatewayError any error of the single endpoint before its job is started
 */
export async function planItem(
  item: StoredItem,
  { jobId, requestId, caller, pricedAtMs }: PlanningContext,
  services: ItemServices,
): Promise<PlannedItem> {
  const request = buildRequest(item, { caller, countCopied: () => {} });
  const { storage, config } = services;
  const { organizationId } = caller;
  authorize(caller, getRequiredScope(request.capability));
  // Planning takes CPU from the jobs of other organizations in this worker.
  const unmeasured = await runInTurn(organizationId, () => authorizeRequest(request));
  const copies = services.copies.forRequest({ organizationId, jobId, countBytes: () => {} });
  try {
    const { request: fields, draft } = await draftRequest(request, unmeasured, {
      ...services,
      copies,
    });
    const measured = await measurePrices({ config, storage, copies }, draft);
    const { capability, parsedRequest } = request;
    const { metadata, webhook, recipe } = parsedRequest;
    const prices = await services.priceBook.at(organizationId, pricedAtMs);
    const input = { requestId, caller, capability, request: fields, metadata, recipe, prices };
    const plan = completePlan(config, { ...input, draft: measured, jobId });
    const priceMicro = calculateChargeMaxMicro(priceDraft(prices, capability, measured));
    return { index: item.index, plan, priceMicro, webhook, discard: () => copies.discard() };
  } catch (error) {
    await copies.discard();
    throw error;
  }
}
