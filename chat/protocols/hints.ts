/**
 * Hints in requests: fields that help a provider, but do not decide the answer. A provider that does
 * not know a hint may reject the whole request, so only the hints in its list are sent.
 */
import { createHash } from 'node:crypto';
import type { ChatModel } from '../models.ts';
import type { ChatBody } from '../chat-body.ts';

const openaiHints = [
  'metadata',
  'prompt_cache_key',
  'prompt_cache_retention',
  'safety_identifier',
  'store',
  'user',
  'verbosity',
] as const;
type Hint = (typeof openaiHints)[number];

/**
 * Hints that each provider takes. Sources: the API references, and errors such as `property
 * 'prompt_cache_key' is unsupported` (Groq) and `Unknown name "store"` (Google).
 */
const hintsByProvider: Readonly<Record<string, readonly Hint[]>> = {
  openai: openaiHints,
  google: [],
  mistral: [],
  deepseek: [],
  meta: [],
  moonshotai: [],
  zai: [],
  xiaomi: [],
};
/** Hints that other providers take. Anthropic's `metadata.user_id` is `user` here. */
const commonHints: readonly Hint[] = ['user'];

/** Hints that identify something, which a hash does too. */
const identifiers: ReadonlySet<Hint> = new Set(['prompt_cache_key', 'safety_identifier', 'user']);
/** Maximum length of an identifier: OpenAI's limit, and Anthropic's of `metadata.user_id`. */
const identifierLengthMax = { openai: 64, anthropic: 256 };

/** Release of GPT-5, the first model that takes `verbosity`. */
const firstWithVerbosity = Date.UTC(2025, 7, 7) / 1000;

/** Returns the hints that a model takes. */
function listHints({ provider, created }: ChatModel): readonly Hint[] {
  const hints = hintsByProvider[provider] ?? commonHints;
  return created < firstWithVerbosity ? hints.filter((hint) => hint !== 'verbosity') : hints;
}

/** Returns the hints of a request that the model's provider takes. Long identifiers are hashed. */
export function pickHints(model: ChatModel, body: ChatBody): Partial<ChatBody> {
  const hints: Record<string, unknown> = {};
  for (const hint of listHints(model)) {
    const value = body[hint];
    if (value === undefined) continue;
    const isLong =
      typeof value === 'string' &&
      identifiers.has(hint) &&
      value.length > identifierLengthMax[model.protocol];
    hints[hint] = isLong ? createHash('sha256').update(value).digest('hex') : value;
  }
  return hints;
}

/** Returns a request without its hints. */
export function withoutHints(body: ChatBody): Omit<ChatBody, Hint> {
  const fields: ChatBody = { ...body };
  for (const hint of openaiHints) delete fields[hint];
  return fields;
}

/**
 * Returns the names of the hints in a request that the model's provider does not receive, and
 * `stop` if it has texts that the provider rejects. The gateway itself keeps `metadata`, so it is
 * never among them.
 */
export function listIgnoredHints(model: ChatModel, body: ChatBody): string[] {
  const taken = listHints(model);
  const hints = openaiHints.filter(
    (hint) => hint !== 'metadata' && body[hint] !== undefined && !taken.includes(hint),
  );
  const hasBlankStop = [body.stop ?? []].flat().some((text) => text.trim() === '');
  return model.protocol === 'anthropic' && hasBlankStop ? [...hints, 'stop'] : hints;
}
