/**
 * Counting tokens without a tokenizer: an upper bound for what is reserved, and a fair estimate for what
 * is charged when the provider never said (docs/chat.md has the reasoning).
 */
import type { ChatBody, ContentPart } from './chat-body.ts';

/** Tokens of an input. */
export interface InputCount {
  /** Never less than any tokenizer of the catalog counts; infinite where the bytes do not say. */
  bound: number;
  estimate: number;
  /** False with pictures and documents: only the provider knows what they count. */
  certain: boolean;
}

/** Role, separators and the like of one message. */
const messageTokens = 8;
/** A picture: most providers count 85–1,600; a few count far more, any size when asked for `original`. */
const imageTokens = { bound: 4000, estimate: 800 };
/** Base64 characters per token: 32 tokens/s of 16 kHz PCM; a document may unpack to any length. */
const base64PerToken = { sound: 8, estimate: 64 };

/** Counts text as it comes. About four ASCII characters, or one character of CJK, are a token. */
export class TextMeter {
  #units = 0;
  /** Bytes that UTF-8 needs beyond one per UTF-16 unit: none for ASCII, two per CJK character. */
  #extraBytes = 0;

  add(text: string): void {
    this.#units += text.length;
    this.#extraBytes += Buffer.byteLength(text) - text.length;
  }

  /** A byte-level tokenizer never needs more tokens than there are bytes. */
  get bytes(): number {
    return this.#units + this.#extraBytes;
  }

  /** The estimate, rounded up: some text is at least one token. */
  get tokens(): number {
    const foreign = this.#extraBytes / 2;
    return Math.ceil(Math.max(0, this.#units - foreign) / 4 + foreign);
  }
}

/** Counts the input of a request. */
export function countInput(body: ChatBody): InputCount {
  const meter = new TextMeter();
  const media: InputCount = { bound: 0, estimate: 0, certain: true };
  for (const message of body.messages) {
    if (typeof message.content === 'string') meter.add(message.content);
    else for (const part of message.content ?? []) countPart(part, meter, media);
    if (message.name) meter.add(message.name);
    if (message.tool_calls) meter.add(JSON.stringify(message.tool_calls));
  }
  if (body.tools) meter.add(JSON.stringify(body.tools));
  if (body.response_format) meter.add(JSON.stringify(body.response_format));
  if (body.prediction) meter.add(JSON.stringify(body.prediction));
  const frame = body.messages.length * messageTokens;
  // Providers put a preamble of their own before tools.
  const preamble = body.tools ? 600 : 0;
  return {
    bound: meter.bytes + media.bound + frame + preamble,
    estimate: meter.tokens + media.estimate + body.messages.length * 4,
    certain: media.certain,
  };
}

function countPart(part: ContentPart, meter: TextMeter, media: InputCount): void {
  switch (part.type) {
    case 'text':
      return meter.add(part.text);
    case 'refusal':
      return meter.add(part.refusal);
    case 'image_url':
      media.bound += part.image_url.detail === 'original' ? Infinity : imageTokens.bound;
      media.certain = false;
      media.estimate += imageTokens.estimate;
      return undefined;
    case 'input_audio':
      media.bound += Math.ceil(part.input_audio.data.length / base64PerToken.sound);
      media.estimate += Math.ceil(part.input_audio.data.length / base64PerToken.estimate);
      return undefined;
    case 'file':
      media.bound = Infinity;
      media.certain = false;
      media.estimate += Math.ceil(part.file.file_data.length / base64PerToken.estimate);
      return undefined;
  }
}
