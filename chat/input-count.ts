/** Counts tokens without a tokenizer (docs/chat.md gives the rates). */
import type { ChatBody, ContentPart } from './chat-body.ts';

/** Tokens of the input of a request. */
export interface InputCount {
  /** Estimate of all tokens, and of the audio tokens among them. */
  tokens: number;
  audioTokens: number;
  /** Tokens that a provider may count beyond one per byte of the request as it is sent; Infinity for documents. */
  beyondBytes: number;
}

/** Tokens of role and separators of one message, at most and as estimated. */
const messageTokens = { most: 8, estimate: 4 };
/**
 * Tokens of a picture: most models count 85–1,600, gpt-4o-mini up to 48,169 (OpenAI, "Images and vision"), and some any number
 * with `detail: original`.
 */
const imageTokens = { most: 50_000, estimate: 800 };
/** Tokens of the text that providers put before tools, at most. */
const toolsTokensMax = 600;
/** Base64 characters of sound and documents per token. */
const base64PerToken = 64;

/** Counts text as it comes. About four ASCII characters, or one character of CJK, are a token. */
export class TextMeter {
  #units = 0;
  /** Bytes that UTF-8 needs beyond one per UTF-16 unit: none for ASCII, two per CJK character. */
  #extraBytes = 0;

  add(text: string): void {
    this.#units += text.length;
    this.#extraBytes += Buffer.byteLength(text) - text.length;
  }

  /** The estimate, rounded up: some text is at least one token. */
  get tokens(): number {
    const foreign = this.#extraBytes / 2;
    return Math.ceil(Math.max(0, this.#units - foreign) / 4 + foreign);
  }
}

/** Counts the input of a request: every text in every field. */
export function countInput(body: ChatBody): InputCount {
  const meter = new TextMeter();
  const media = { tokens: 0, audioTokens: 0, beyondBytes: 0 };
  const { messages, ...others } = body;
  for (const { role: _, content, ...fields } of messages) {
    if (typeof content === 'string') meter.add(content);
    else for (const part of content ?? []) countPart(part, meter, media);
    countFields(fields, meter);
  }
  const input = Object.entries(others).filter(([name]) => !identifiers.has(name));
  countFields(Object.fromEntries(input), meter);
  return {
    tokens:
      meter.tokens + media.tokens + media.audioTokens + messages.length * messageTokens.estimate,
    audioTokens: media.audioTokens,
    beyondBytes:
      media.beyondBytes + messages.length * messageTokens.most + (body.tools ? toolsTokensMax : 0),
  };
}

/**
 * Returns the highest count of input tokens that is possible for a request as it is sent: a byte-level tokenizer never
 * needs more tokens than there are bytes, so no field of the request can be forgotten.
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
]);

/** Counts the texts of fields; numbers and flags are parameters of the provider, not input. */
function countFields(fields: object, meter: TextMeter): void {
  for (const value of Object.values(fields)) {
    if (typeof value === 'string') meter.add(value);
    else if (typeof value === 'object' && value !== null) meter.add(JSON.stringify(value));
  }
}

function countPart(part: ContentPart, meter: TextMeter, media: InputCount): void {
  switch (part.type) {
    case 'text':
    case 'refusal': {
      const { type: _, ...fields } = part;
      return countFields(fields, meter);
    }
    case 'image_url':
      media.beyondBytes += part.image_url.detail === 'original' ? Infinity : imageTokens.most;
      media.tokens += imageTokens.estimate;
      return undefined;
    case 'input_audio':
      media.audioTokens += Math.ceil(part.input_audio.data.length / base64PerToken);
      return undefined;
    case 'file':
      // A document may unpack to any length.
      media.beyondBytes = Infinity;
      media.tokens += Math.ceil(part.file.file_data.length / base64PerToken);
      meter.add(part.file.filename ?? '');
      return undefined;
  }
}
