/**
 * Entry of a model in the list, with the fields that clients of OpenAI's, Anthropic's and
 * OpenRouter's APIs read: limits, prices and the parameters that the model knows.
 *
 * Sources: `Model` of the `openai` client, `ModelInfo` of `@anthropic-ai/sdk` 1.11, and the response
 * schema in OpenRouter's documentation of its models API.
 */
import { z } from 'zod';
import { applyBook, getKind, selectChatPrice, type ChatModel } from '../../chat/models.ts';
import { setPrice } from '../../chat/orders.ts';
import type { Prices } from '../../ledger/price-book.ts';
import { time } from './fields.ts';

/** Schema of the use of a model. */
export const modelKind = z.enum(['chat', 'embedding']).meta({
  description: 'Use of the model: chats, or `POST /api/v1/embeddings`.',
});
const price = z.string().meta({ description: 'Price in USD per token.', example: '0.000003' });
const tokens = z.int().nullable();

/** Schema of a model in a list. */
export const modelEntrySchema = z
  .object({
    id: z.string(),
    object: z.literal('model'),
    created: z.int(),
    owned_by: z.string(),
    type: z.literal('model'),
    kind: modelKind,
    display_name: z.string(),
    created_at: time,
    capabilities: z.null(),
    line: z.null(),
    lifecycle: z.enum(['active', 'deprecated']).meta({
      description: '`deprecated` if the provider has announced the end of the model.',
    }),
    deprecated_at: z.null(),
    retires_at: time.nullable(),
    max_input_tokens: tokens,
    max_tokens: tokens.meta({ description: 'Maximum of one answer; null for embeddings.' }),
    canonical_slug: z.string(),
    name: z.string(),
    description: z.string(),
    context_length: z.int(),
    architecture: z.object({
      modality: z.string(),
      input_modalities: z.array(z.enum(['text', 'image', 'video', 'audio'])),
      output_modalities: z.array(z.enum(['text', 'embeddings'])),
      tokenizer: z.literal('Other'),
      instruct_type: z.null(),
    }),
    pricing: z
      .object({
        prompt: price,
        completion: price,
        input_cache_read: price,
        input_cache_write: price,
        audio: price,
      })
      .meta({
        description: 'Prices for input of usual length; `models[].cost` has them per million.',
      }),
    top_provider: z.object({
      context_length: z.int(),
      max_completion_tokens: tokens,
      is_moderated: z.literal(false),
    }),
    per_request_limits: z.null(),
    supported_parameters: z.array(z.string()),
  })
  .meta({
    id: 'Model',
    description: 'Model with the fields of OpenAI’s, Anthropic’s and OpenRouter’s APIs.',
  });
type ModelEntry = z.infer<typeof modelEntrySchema>;

/** Returns the function that sets the price of a caller in a model, for a list. */
export const listPriceOf =
  (prices: Prices) =>
  (model: ChatModel): ChatModel => {
    const { book } = setPrice(model, prices);
    return { ...model, cost: applyBook(model.cost, book, prices.usdPerCredit) };
  };

/** Formats a model as an entry of the list. */
export function formatModelEntry(model: ChatModel): ModelEntry {
  const { id, name, created, ownedBy, limit, retiresOn, description = name } = model;
  const outputMax = limit.output === 0 ? null : limit.output;
  return {
    id,
    object: 'model',
    created,
    owned_by: ownedBy,
    type: 'model',
    kind: getKind(model),
    display_name: name,
    created_at: formatTime(created * 1000),
    capabilities: null,
    line: null,
    lifecycle: retiresOn === undefined ? 'active' : 'deprecated',
    deprecated_at: null,
    retires_at: retiresOn === undefined ? null : formatTime(Date.parse(retiresOn)),
    max_input_tokens: limit.context,
    max_tokens: outputMax,
    canonical_slug: id,
    name,
    description,
    context_length: limit.context,
    architecture: formatArchitecture(model),
    pricing: formatPricing(model),
    top_provider: {
      context_length: limit.context,
      max_completion_tokens: outputMax,
      is_moderated: false,
    },
    per_request_limits: null,
    supported_parameters: listParameters(model),
  };
}

const formatTime = (ms: number): string => new Date(ms).toISOString().replace('.000Z', 'Z');

function formatArchitecture(model: ChatModel): ModelEntry['architecture'] {
  const input: ModelEntry['architecture']['input_modalities'] = ['text'];
  if (model.supportsImages) input.push('image');
  if (model.supportsVideo) input.push('video');
  if (model.supportsAudio) input.push('audio');
  const output = model.embedding ? 'embeddings' : 'text';
  return {
    modality: `${input.join('+')}->${output}`,
    input_modalities: input,
    output_modalities: [output],
    tokenizer: 'Other',
    instruct_type: null,
  };
}

function formatPricing({ cost }: ChatModel): ModelEntry['pricing'] {
  const prices = selectChatPrice(cost, 0);
  return {
    prompt: formatTokenPrice(prices.inputUsdPerMillion),
    completion: formatTokenPrice(prices.outputUsdPerMillion),
    input_cache_read: formatTokenPrice(prices.cachedInputUsdPerMillion),
    input_cache_write: formatTokenPrice(prices.cacheWriteUsdPerMillion),
    audio: formatTokenPrice(prices.audioInputUsdPerMillion),
  };
}

/** Formats a price per token without an exponent. Prices per million have at most six decimals. */
const formatTokenPrice = (usdPerMillion: number): string =>
  (usdPerMillion / 1e6).toFixed(12).replace(/(?:\.|(?<!0))0+$/, '');

const sharedParameters = [
  'max_tokens',
  'parallel_tool_calls',
  'response_format',
  'stop',
  'structured_outputs',
  'temperature',
  'tool_choice',
  'tools',
  'top_p',
];
const protocolParameters: Readonly<Record<ChatModel['protocol'], readonly string[]>> = {
  openai: ['frequency_penalty', 'presence_penalty', 'seed'],
  anthropic: ['top_k'],
};

/** Returns the fields of a chat that the model knows, sorted, with OpenRouter's names. */
function listParameters({ embedding, protocol, reasoning }: ChatModel): string[] {
  if (embedding) return embedding.dimensionsMax === undefined ? [] : ['dimensions'];
  const ofReasoning = reasoning ? ['include_reasoning', 'reasoning'] : [];
  return [...sharedParameters, ...protocolParameters[protocol], ...ofReasoning].toSorted();
}
