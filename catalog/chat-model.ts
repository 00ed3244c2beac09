/** What the gateway knows of a chat model, and how files that list some are checked. */
import { z } from 'zod';

const usdPerMillion = z.number().min(0).max(100_000);
const tokens = z.number().int().positive();
const tokenPrice = { inputUsdPerMillion: usdPerMillion, outputUsdPerMillion: usdPerMillion };
const yes = z.literal(true);

/** The price of a request; a long input may put all of it on a higher one. */
const chatCost = z.strictObject({
  ...tokenPrice,
  /** Price of audio tokens of the input, if it is not that of other input. */
  audioInputUsdPerMillion: usdPerMillion.exactOptional(),
  /** Applies to the whole request once its input has more tokens than this. */
  longInput: z.strictObject({ inputTokensAbove: tokens, ...tokenPrice }).exactOptional(),
});
export type ChatCost = z.infer<typeof chatCost>;

/** A row in a file: the committed catalog, or models of the operator's own. */
export const chatModelSchema = z.strictObject({
  /** What callers pass as `model`. */
  id: z.string().regex(/^[\w.:@/-]{1,128}$/, 'must be 1–128 of A–Z a–z 0–9 . _ : @ / -'),
  name: z.string().min(1).max(128),
  /** The maker, which is not always who serves it. */
  ownedBy: z.string().min(1).max(64),
  /** Release, unix seconds. */
  created: z.number().int().positive(),
  description: z.string().min(1).max(500).exactOptional(),
  /** Who serves it: a name of catalog/chat-providers.ts, or one of the operator's own. */
  provider: z.string().regex(/^[a-z][a-z0-9-]{0,31}$/),
  protocol: z.enum(['openai', 'anthropic']),
  /** The provider's id of the model. */
  upstreamModel: z.string().min(1).max(256),
  cost: chatCost,
  /** Tokens: the most input, and the most output of one answer. */
  limit: z.strictObject({ context: tokens, output: tokens }),
  reasoning: yes.exactOptional(),
  supportsImages: yes.exactOptional(),
  supportsVideo: yes.exactOptional(),
  supportsAudio: yes.exactOptional(),
  /** Day from which the provider no longer serves it, `YYYY-MM-DD` (UTC). */
  retiresOn: z.iso.date().exactOptional(),
});
export type ChatModel = z.infer<typeof chatModelSchema>;

/** Returns the USD per million tokens for a request with this much input. */
export function chatPriceFor(
  { longInput, ...cost }: ChatCost,
  inputTokens: number,
): Required<Omit<ChatCost, 'longInput'>> {
  const price = longInput && inputTokens > longInput.inputTokensAbove ? longInput : cost;
  const { inputUsdPerMillion, outputUsdPerMillion } = price;
  const audioInputUsdPerMillion = cost.audioInputUsdPerMillion ?? inputUsdPerMillion;
  return { inputUsdPerMillion, outputUsdPerMillion, audioInputUsdPerMillion };
}

/** Whether its provider has stopped serving it. */
export function isRetired(model: ChatModel, nowMs: number): boolean {
  return model.retiresOn !== undefined && Date.parse(model.retiresOn) <= nowMs;
}
