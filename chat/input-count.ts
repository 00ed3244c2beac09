/** Estimates token counts without a tokenizer (docs/chat.md lists the rates). */
import type {
  AnswerBlock,
  ChatBody,
  ChatMessage,
  ContentPart,
  EmbeddingInput,
} from './chat-body.ts';

/** Estimated input tokens of a request. */
export interface InputCount {
  /** All input tokens. */
  tokens: number;
  /** Audio tokens among the input tokens. */
  audioTokens: number;
  /**
   * Maximum tokens by which the provider's count may exceed the bytes of the request. Infinity if
   * the request contains a document, a video or a picture of original size.
   */
  tokensBeyondBytesMax: number;
  /** True if the request enables the prompt cache; writing to it may cost more than other input. */
  writesCache: boolean;
}

/** Tokens for the role and the separators of one message. */
const messageTokens = { max: 8, estimate: 4 };
/**
 * Tokens of a picture. Most models count 85–1,600, gpt-4o-mini up to 48,169 (OpenAI, "Images and
 * vision"), and some models any number with `detail: original`.
 */
const imageTokens = { max: 50_000, estimate: 800 };
/** Maximum tokens of the instructions that providers add to a request with tools. */
const toolsTokensMax = 600;
/** Minimum estimate for a document: one page has 1,500–3,000 tokens (Anthropic, "PDF support"). */
const documentTokensMin = 3000;
/** Number of Base64 characters that count as one token, in sound, videos and documents. */
const base64CharactersPerToken = 64;

/**
 * Estimates the tokens of text that arrives in pieces: one token per four ASCII characters, or per
 * CJK character.
 */
export class TextMeter {
  #units = 0;
  /** Number of UTF-8 bytes minus UTF-16 units: 0 for an ASCII character, 2 for a CJK character. */
  #extraBytes = 0;

  add(text: string): void {
    this.#units += text.length;
    this.#extraBytes += Buffer.byteLength(text) - text.length;
  }

  /** Estimated tokens, rounded up, so that every non-empty text has at least one. */
  get tokens(): number {
    const cjkCharacters = this.#extraBytes / 2;
    return Math.ceil(Math.max(0, this.#units - cjkCharacters) / 4 + cjkCharacters);
  }
}

/** Estimates the input tokens of a request from the strings in its fields. */
export function estimateInput(body: ChatBody): InputCount {
  const meter = new TextMeter();
  const media: Media = { tokens: 0, audioTokens: 0, tokensBeyondBytesMax: 0 };
  const { messages, embedding, ...others } = body;
  if (embedding) return countInputs(embedding);
  for (const message of messages) countMessage(message, meter, media);
  // The gateway may add a tool itself, in order to request a structured answer.
  const hasTools = body.tools !== undefined || body.response_format !== undefined;
  const input = Object.entries(others).filter(([name]) => !fieldsOutsideInput.has(name));
  countFields(Object.fromEntries(input), meter);
  return {
    tokens:
      meter.tokens + media.tokens + media.audioTokens + messages.length * messageTokens.estimate,
    audioTokens: media.audioTokens,
    tokensBeyondBytesMax:
      media.tokensBeyondBytesMax +
      messages.length * messageTokens.max +
      (hasTools ? toolsTokensMax : 0),
    writesCache: writesCache(body),
  };
}

/** Tokens that a provider may add at the start and the end of each input to embed. */
const separatorTokensMax = 2;

/** Counts the inputs of a request for embeddings; the count of tokens is exact. */
function countInputs({ inputs }: EmbeddingInput): InputCount {
  let tokens = 0;
  for (const input of inputs) {
    const meter = new TextMeter();
    if (typeof input === 'string') meter.add(input);
    tokens += typeof input === 'string' ? meter.tokens : input.length;
  }
  const tokensBeyondBytesMax = inputs.length * separatorTokensMax;
  return { tokens, audioTokens: 0, tokensBeyondBytesMax, writesCache: false };
}

function hasCacheControl(part: object): boolean {
  return 'cache_control' in part;
}

function writesCache({ messages, tools = [], cache_control: requestMarker }: ChatBody): boolean {
  return (
    requestMarker !== undefined ||
    tools.some(hasCacheControl) ||
    messages.some((message) => {
      const { content: parts } =
        message.role === 'assistant' ? { content: message.blocks } : message;
      const isMarked = typeof parts !== 'string' && parts.some(hasCacheControl);
      return hasCacheControl(message) || isMarked;
    })
  );
}

/**
 * Pattern of the first character of a word. It does not match the rest of the word, because the
 * pattern `\S+` can overflow V8's stack in a word of several megabytes.
 */
const wordStart = /(?<!\S)\S/g;

/**
 * Returns the number of words in texts. It is a lower bound for their tokens, because no token spans
 * several words. Stops at `countMax` + 1 words. Returns 0 without counting if the texts are too short
 * to contain more than `countMax`.
 */
export function countMinimumTokens(texts: readonly string[], countMax: number): number {
  if (texts.reduce((sum, { length }) => sum + length, 0) < 2 * countMax) return 0;
  let count = 0;
  for (const text of texts) {
    for (const _ of text.matchAll(wordStart)) {
      count += 1;
      if (count > countMax) return count;
    }
  }
  return count;
}

/**
 * Returns the maximum input tokens of an encoded request. A byte-level tokenizer never produces
 * more tokens than bytes, so the number of bytes covers every field of the request.
 */
export function countMaximumTokens(encoded: string, { tokensBeyondBytesMax }: InputCount): number {
  return Buffer.byteLength(encoded) + tokensBeyondBytesMax;
}

/** Fields that are not input of the model. All others count as input, even unknown ones. */
const fieldsOutsideInput: ReadonlySet<string> = new Set([
  'user',
  'metadata',
  'prompt_cache_key',
  'prompt_cache_retention',
  'safety_identifier',
  'cache_control',
  'thinking',
]);

function countMessage(message: ChatMessage, meter: TextMeter, media: Media): void {
  if (message.role === 'assistant') {
    const { role: _, path: __, blocks, ...fields } = message;
    for (const block of blocks) countBlock(block, meter);
    return countFields(fields, meter);
  }
  const { role: _, path: __, content, ...fields } = message;
  if (typeof content === 'string') meter.add(content);
  else for (const part of content) countPart(part, meter, media);
  return countFields(fields, meter);
}

/** Counts a block of an earlier answer. A signature is not input of the model. */
function countBlock(block: AnswerBlock, meter: TextMeter): void {
  switch (block.type) {
    case 'text':
      return meter.add(block.text);
    case 'refusal':
      return meter.add(block.refusal);
    case 'thought':
      return meter.add(block.text + block.data);
    case 'function': {
      const { path: _, type: __, cache_control: ___, ...fields } = block;
      return countFields(fields, meter);
    }
  }
}

/** Counts the strings in fields. Numbers and flags are not counted, because they are parameters. */
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
      return meter.add(part.text);
    case 'image_url':
      media.tokensBeyondBytesMax +=
        part.image_url.detail === 'original' ? Infinity : imageTokens.max;
      media.tokens += imageTokens.estimate;
      return undefined;
    case 'input_audio':
      media.audioTokens += Math.ceil(part.input_audio.data.length / base64CharactersPerToken);
      return undefined;
    case 'video_url':
      // A compressed video may contain any number of frames.
      media.tokensBeyondBytesMax = Infinity;
      media.tokens += Math.ceil(part.video_url.url.length / base64CharactersPerToken);
      return undefined;
    case 'file':
      // A document may decompress to any length.
      media.tokensBeyondBytesMax = Infinity;
      // The length of a document that is sent as a URL is unknown.
      media.tokens += Math.max(
        documentTokensMin,
        Math.ceil((part.file.file_data ?? '').length / base64CharactersPerToken),
      );
      meter.add(part.file.filename ?? '');
      return undefined;
  }
}
