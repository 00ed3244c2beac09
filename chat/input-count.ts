/** Counts tokens without a tokenizer (docs/chat.md gives the rates). */
import type { ChatBody, ContentPart } from './chat-body.ts';

/** Tokens of the input of a request. */
export interface InputCount {
  /** Estimate of all tokens, and of the audio tokens among them. */
  tokens: number;
  audioTokens: number;
  /**
   * Tokens that a provider may count in addition to one per byte of the sent request; Infinity for
   * documents.
   */
  beyondBytes: number;
  /**
   * True if the request makes the provider write its prompt cache, which may cost more than other
   * input.
   */
  writesCache: boolean;
}

/** Tokens of role and separators of one message: the highest number, and the estimate. */
const messageTokens = { most: 8, estimate: 4 };
/**
 * Tokens of a picture: most models count 85–1,600, gpt-4o-mini up to 48,169 (OpenAI, "Images and
 * vision"), and some any number with `detail: original`.
 */
const imageTokens = { most: 50_000, estimate: 800 };
/** Highest number of tokens of the text that providers put before tools. */
const toolsTokensMax = 600;
/** Least estimate for a document: one page has 1,500–3,000 tokens (Anthropic, "PDF support"). */
const documentTokensMin = 3000;
/** Base64 characters of sound, video and documents per token. */
const base64PerToken = 64;

/**
 * Counts the tokens of text that arrives in pieces. About four ASCII characters, or one character
 * of CJK, are a token.
 */
export class TextMeter {
  #units = 0;
  /** Bytes that UTF-8 needs beyond one per UTF-16 unit: none for ASCII, two per CJK character. */
  #extraBytes = 0;

  add(text: string): void {
    this.#units += text.length;
    this.#extraBytes += Buffer.byteLength(text) - text.length;
  }

  /** Estimate, rounded up, so that a text that is not empty has at least one token. */
  get tokens(): number {
    const foreign = this.#extraBytes / 2;
    return Math.ceil(Math.max(0, this.#units - foreign) / 4 + foreign);
  }
}

/** Counts the input of a request: every text in every field. */
export function countInput(body: ChatBody): InputCount {
  const meter = new TextMeter();
  const media: Media = { tokens: 0, audioTokens: 0, beyondBytes: 0 };
  const { messages, ...others } = body;
  for (const { role: _, content, ...fields } of messages) {
    if (typeof content === 'string') meter.add(content);
    else for (const part of content ?? []) countPart(part, meter, media);
    countFields(fields, meter);
  }
  // The gateway may request a structured answer by a tool of its own.
  const hasTools = body.tools !== undefined || body.response_format !== undefined;
  const input = Object.entries(others).filter(([name]) => !identifiers.has(name));
  countFields(Object.fromEntries(input), meter);
  return {
    tokens:
      meter.tokens + media.tokens + media.audioTokens + messages.length * messageTokens.estimate,
    audioTokens: media.audioTokens,
    beyondBytes:
      media.beyondBytes + messages.length * messageTokens.most + (hasTools ? toolsTokensMax : 0),
    writesCache: writesCache(body),
  };
}

function marked(part: object): boolean {
  return 'cache_control' in part;
}

function writesCache({ messages, tools = [], cache_control: whole }: ChatBody): boolean {
  return (
    whole !== undefined ||
    tools.some(marked) ||
    messages.some((message) => {
      const { content, tool_calls: calls = [] } = message;
      const parts = Array.isArray(content) ? content : [];
      return marked(message) || parts.some(marked) || calls.some(marked);
    })
  );
}

/**
 * Returns the least number of tokens of the messages: their number of words, because a token does
 * not contain white space between words. The count stops above `countMax`, and is 0 if the text is
 * too short to have so many words.
 */
export function leastTokens({ messages }: ChatBody, countMax: number): number {
  const texts = messages.flatMap(({ content }) =>
    typeof content === 'string'
      ? [content]
      : (content ?? []).map((part) => (part.type === 'text' ? part.text : '')),
  );
  if (texts.reduce((sum, { length }) => sum + length, 0) < 2 * countMax) return 0;
  let count = 0;
  for (const text of texts) {
    for (const _ of text.matchAll(/\S+/g)) {
      count += 1;
      if (count > countMax) return count;
    }
  }
  return count;
}

/**
 * Returns the highest count of input tokens that is possible for a sent request: a byte-level
 * tokenizer never needs more tokens than there are bytes, so no field of the request can be
 * forgotten.
 */
export function inputTokensMax(sent: string, { beyondBytes }: InputCount): number {
  return Buffer.byteLength(sent) + beyondBytes;
}

/** Fields that providers never give to a model. Every other field counts as input, known or not. */
const identifiers: ReadonlySet<string> = new Set([
  'user',
  'metadata',
  'prompt_cache_key',
  'prompt_cache_retention',
  'safety_identifier',
  'cache_control',
  'thinking',
]);

/** Counts the texts of fields; numbers and flags are parameters of the provider, not input. */
function countFields(fields: object, meter: TextMeter): void {
  for (const value of Object.values(fields)) {
    if (typeof value === 'string') meter.add(value);
    else if (typeof value === 'object' && value !== null) meter.add(JSON.stringify(value));
  }
}

type Media = Omit<InputCount, 'writesCache'>;

function countPart(part: ContentPart, meter: TextMeter, media: Media): void {
  switch (part.type) {
    case 'text':
    case 'refusal': {
      const { type: _, cache_control: __, ...fields } = part;
      return countFields(fields, meter);
    }
    case 'image_url':
      media.beyondBytes += part.image_url.detail === 'original' ? Infinity : imageTokens.most;
      media.tokens += imageTokens.estimate;
      return undefined;
    case 'input_audio':
      media.audioTokens += Math.ceil(part.input_audio.data.length / base64PerToken);
      return undefined;
    case 'video_url':
      // A compressed video may show any number of pictures.
      media.beyondBytes = Infinity;
      media.tokens += Math.ceil(part.video_url.url.length / base64PerToken);
      return undefined;
    case 'file':
      // A document may decompress to any length.
      media.beyondBytes = Infinity;
      // A document by URL has no known length.
      media.tokens += Math.max(
        documentTokensMin,
        Math.ceil((part.file.file_data ?? '').length / base64PerToken),
      );
      meter.add(part.file.filename ?? '');
      return undefined;
  }
}
