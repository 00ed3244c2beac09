/** Schema of chat models, which is also the schema of the files that list them. */
import { z } from 'zod';

const usdPerMillion = z.number().min(0).max(100_000);
const tokenCount = z.number().int().positive();
const tokenPrice = {
  inputUsdPerMillion: usdPerMillion,
  outputUsdPerMillion: usdPerMillion,
  /** Price of input tokens read from the prompt cache; defaults to `inputUsdPerMillion`. */
  cachedInputUsdPerMillion: usdPerMillion.exactOptional(),
  /** Price of input tokens written to the prompt cache; defaults to `inputUsdPerMillion`. */
  cacheWriteUsdPerMillion: usdPerMillion.exactOptional(),
};
const onlyTrue = z.literal(true);

/**
 * Price of a request in USD per million tokens. A request with long input may have a higher price
 * for all its tokens.
 */
const chatCost = z.strictObject({
  ...tokenPrice,
  /** Price of audio tokens in the input; defaults to `inputUsdPerMillion`. */
  audioInputUsdPerMillion: usdPerMillion.exactOptional(),
  /** Price of all tokens of a request whose input has more than `inputTokensAbove` tokens. */
  longInput: z.strictObject({ inputTokensAbove: tokenCount, ...tokenPrice }).exactOptional(),
});
/** Price of a chat model. */
export type ChatCost = z.infer<typeof chatCost>;

/** Schema of the properties that only embedding models have. */
const embeddingSchema = z.strictObject({
  /** Length of a vector if the request does not set `dimensions`. */
  dimensions: tokenCount,
  /** Maximum of the field `dimensions` of a request; absent if the model rejects this field. */
  dimensionsMax: tokenCount.exactOptional(),
  /** Maximum number of inputs of one request. */
  inputsMax: tokenCount.max(2048),
  /** True if an input may also be a list of tokens. */
  acceptsTokens: onlyTrue.exactOptional(),
});
/** Properties that only embedding models have. */
export type EmbeddingProperties = z.infer<typeof embeddingSchema>;

const modelFields = z.strictObject({
  /** Id that callers send as `model`. */
  id: z.string().regex(/^[\w.:@/-]{1,128}$/, 'must be 1 to 128 of A–Z a–z 0–9 . _ : @ / -'),
  name: z.string().min(1).max(128),
  /** Company that made the model; another company may serve it (`provider`). */
  ownedBy: z.string().min(1).max(64),
  /** Release date of the model in Unix seconds. */
  created: z.number().int().positive(),
  description: z.string().min(1).max(500).exactOptional(),
  /** Provider of the model: a name in chat/providers.ts, or one that the operator adds. */
  provider: z.string().regex(/^[a-z][a-z0-9-]{0,31}$/),
  protocol: z.enum(['openai', 'anthropic']),
  /** Id of the model at the provider. */
  upstreamModel: z.string().min(1).max(256),
  cost: chatCost,
  /**
   * Maximum number of tokens in the input (`context`) and in one answer (`output`). For an embedding
   * model, `context` is the maximum of one input, and `output` is 0.
   */
  limit: z.strictObject({ context: tokenCount, output: z.number().int().min(0) }),
  reasoning: onlyTrue.exactOptional(),
  /**
   * Reasoning mode of a model that uses Anthropic's protocol; defaults to `budget`. With `budget`,
   * a request sets the number of reasoning tokens. With `adaptive`, a request sets an effort, and
   * the model decides how much to reason. `always` is like `adaptive`, but a request can neither
   * turn reasoning off nor force the model to call a tool.
   */
  thinking: z.enum(['budget', 'adaptive', 'always']).exactOptional(),
  supportsImages: onlyTrue.exactOptional(),
  supportsVideo: onlyTrue.exactOptional(),
  supportsAudio: onlyTrue.exactOptional(),
  /** Present if the model makes embeddings instead of chats. */
  embedding: embeddingSchema.exactOptional(),
  /** First day on which the provider no longer serves the model, `YYYY-MM-DD` (UTC). */
  retiresOn: z.iso.date().exactOptional(),
});

/** Schema of a model in the committed catalog or in an operator's models file. */
export const chatModelSchema = modelFields
  .refine(({ limit, embedding }) => (limit.output === 0) === (embedding !== undefined), {
    path: ['limit', 'output'],
    message: 'must be at least 1, or 0 for an embedding model',
  })
  .refine(({ protocol, embedding }) => protocol === 'openai' || embedding === undefined, {
    path: ['embedding'],
    message: 'requires protocol openai',
  });

/** Model for chats or for embeddings. */
export type ChatModel = z.infer<typeof chatModelSchema>;

/** Returns the prices in USD per million tokens of a request with this many input tokens. */
export function selectChatPrice(
  { longInput, ...cost }: ChatCost,
  inputTokens: number,
): Required<Omit<ChatCost, 'longInput'>> {
  const price = longInput && inputTokens > longInput.inputTokensAbove ? longInput : cost;
  const { inputUsdPerMillion, outputUsdPerMillion } = price;
  return {
    inputUsdPerMillion,
    outputUsdPerMillion,
    audioInputUsdPerMillion: cost.audioInputUsdPerMillion ?? inputUsdPerMillion,
    cachedInputUsdPerMillion: price.cachedInputUsdPerMillion ?? inputUsdPerMillion,
    cacheWriteUsdPerMillion: price.cacheWriteUsdPerMillion ?? inputUsdPerMillion,
  };
}

/** Use of a model, which its endpoint determines. */
export type ModelKind = 'chat' | 'embedding';

/** Returns the use of a model. */
export function getKind({ embedding }: ChatModel): ModelKind {
  return embedding ? 'embedding' : 'chat';
}

/** Returns whether the provider has stopped serving the model at `nowMs` (Unix ms). */
export function isRetired(model: ChatModel, nowMs: number): boolean {
  return model.retiresOn !== undefined && Date.parse(model.retiresOn) <= nowMs;
}
