/** What the gateway knows of a chat model, and how files that list some are checked. */
import { z } from 'zod';
import type { ChatProtocol } from './chat-providers.ts';

/** USD per million tokens. */
interface TokenPrice {
  inputUsdPerMillion: number;
  outputUsdPerMillion: number;
}

/** The price of a request; a long input may put all of it on a higher one. */
export interface ChatCost extends TokenPrice {
  /** Applies to the whole request once its input has more tokens than this. */
  longInput?: TokenPrice & { inputTokensAbove: number };
}

/** A row of the catalog. */
export interface ChatModel {
  /** What callers pass as `model`; may hold `/`. */
  id: string;
  name: string;
  /** The maker, which is not always who serves it. */
  ownedBy: string;
  /** Release, unix seconds. */
  created: number;
  description?: string;
  /** Who serves it: a name of catalog/chat-providers.ts, or one of the operator's own. */
  provider: string;
  protocol: ChatProtocol;
  /** The provider's id of the model. */
  upstreamModel: string;
  cost: ChatCost;
  /** Tokens: the most input, and the most output of one answer. */
  limit: { context: number; output: number };
  reasoning?: true;
  supportsImages?: true;
  supportsVideo?: true;
  supportsAudio?: true;
  /** Day from which the provider no longer serves it, `YYYY-MM-DD` (UTC). */
  retiresOn?: string;
}

const usdPerMillion = z.number().min(0).max(100_000);
const tokens = z.number().int().positive();
const tokenPrice = { inputUsdPerMillion: usdPerMillion, outputUsdPerMillion: usdPerMillion };
const yes = z.literal(true);

/** A row in a file: the committed catalog, or models of the operator's own. */
export const chatModelSchema: z.ZodType<ChatModel> = z.strictObject({
  id: z.string().regex(/^[\w.:@/-]{1,128}$/, 'must be 1–128 of A–Z a–z 0–9 . _ : @ / -'),
  name: z.string().min(1).max(128),
  ownedBy: z.string().min(1).max(64),
  created: z.number().int().positive(),
  description: z.string().min(1).max(500).exactOptional(),
  provider: z.string().regex(/^[a-z][a-z0-9-]{0,31}$/),
  protocol: z.enum(['openai', 'anthropic']),
  upstreamModel: z.string().min(1).max(256),
  cost: z.strictObject({
    ...tokenPrice,
    longInput: z.strictObject({ inputTokensAbove: tokens, ...tokenPrice }).exactOptional(),
  }),
  limit: z.strictObject({ context: tokens, output: tokens }),
  reasoning: yes.exactOptional(),
  supportsImages: yes.exactOptional(),
  supportsVideo: yes.exactOptional(),
  supportsAudio: yes.exactOptional(),
  retiresOn: z.iso.date().exactOptional(),
});

/** USD per million tokens for a request with this much input. */
export function chatPriceFor(cost: ChatCost, inputTokens: number): TokenPrice {
  const { longInput } = cost;
  return longInput && inputTokens > longInput.inputTokensAbove ? longInput : cost;
}

/** Whether its provider has stopped serving it. */
export function isRetired(model: ChatModel, nowMs: number): boolean {
  return model.retiresOn !== undefined && Date.parse(model.retiresOn) <= nowMs;
}
