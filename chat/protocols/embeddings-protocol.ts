/**
 * Encodes requests for OpenAI's embeddings and decodes the vectors. Google and Mistral serve this
 * protocol with other fields.
 *
 * Sources: the types of the `openai` client; Mistral's API reference, "Embeddings"; Google's "OpenAI
 * compatibility", whose endpoint rejects `encoding_format: base64` and lists of tokens.
 */
import type { ChatModel } from '../models.ts';
import { assert } from '../../domain/errors.ts';
import { asRecord } from '../../domain/json.ts';
import type { ReportedUsage } from '../bill.ts';
import { openaiProtocol } from './chat-protocols.ts';
import {
  parseReport,
  parseTokenCount,
  type AnswerReader,
  type ChatCall,
  type ChatProtocol,
  type StreamStep,
} from './protocol.ts';

/** Vector as the provider sent it: numbers, or base64 of little-endian 32-bit floats. */
export type Vector = readonly number[] | string;

/** Differences between the providers' embeddings. */
interface EmbeddingsDialect {
  dimensionsField: 'dimensions' | 'output_dimension';
  /** Fields that only some providers accept. Base64 is a quarter of the size of decimal numbers. */
  constantFields: { encoding_format?: 'base64' };
  acceptsUser: boolean;
}

const defaultDialect: EmbeddingsDialect = {
  dimensionsField: 'dimensions',
  constantFields: {},
  acceptsUser: false,
};
const dialects: Readonly<Record<string, EmbeddingsDialect>> = {
  openai: { ...defaultDialect, constantFields: { encoding_format: 'base64' }, acceptsUser: true },
  mistral: { ...defaultDialect, dimensionsField: 'output_dimension' },
};

/** Protocol of embedding models. It has no streams. */
export const embeddingsProtocol: ChatProtocol = {
  ...openaiProtocol,
  path: '/embeddings',
  // The longest answers are 2,048 vectors of 3,072 numbers in base64, or of 1,536 decimal numbers.
  answerBytesMax: 96 * 1024 * 1024,
  encode: encodeEmbeddings,
  withTokenLimit: (fields) => fields,
  createReader: (response) => new EmbeddingsReader(response),
};

/** Returns whether the provider of a model sends its vectors in base64. */
export function sendsBase64(model: ChatModel): boolean {
  return dialects[model.provider]?.constantFields.encoding_format === 'base64';
}

function encodeEmbeddings({ model, body }: ChatCall): Record<string, unknown> {
  const { embedding, user } = body;
  assert(embedding, 'a request to an embedding model has no inputs');
  const dialect = dialects[model.provider] ?? defaultDialect;
  const { dimensions } = embedding;
  return {
    model: model.upstreamModel,
    input: embedding.inputs,
    ...(dimensions !== undefined &&
      model.embedding?.dimensionsMax && { [dialect.dimensionsField]: dimensions }),
    ...dialect.constantFields,
    ...(dialect.acceptsUser && user !== undefined && { user }),
  };
}

/** Parser of one response, which is never streamed. */
class EmbeddingsReader implements AnswerReader {
  isEnded = false;
  complete = false;
  readonly finishReason = 'stop';
  readonly stopSequence = null;
  usage: ReportedUsage = { final: false };
  readonly head = { id: '', created: Math.floor(Date.now() / 1000), model: '' };
  readonly #inputs: number;

  constructor({ answers }: { answers: number }) {
    this.#inputs = answers;
  }

  read(): StreamStep[] {
    return [];
  }

  readDocument(text: string): StreamStep[] {
    this.isEnded = true;
    const { data, usage } = parseReport(text) ?? {};
    const items = Array.isArray(data) ? data.map(asRecord) : [];
    const vectors = sortByIndex(items).map(({ embedding }) => embedding);
    this.complete = vectors.length === this.#inputs && vectors.every(isVector);
    // Google reports no usage or zero, although no input has zero tokens.
    const inputTokens = parseTokenCount(asRecord(usage)['prompt_tokens']);
    if (inputTokens) this.usage = { inputTokens, outputTokens: 0, final: true };
    return [{ chunk: { vectors }, text: '', outputText: '' }];
  }

  end(): StreamStep[] {
    return [];
  }
}

/** Sorts items by their `index`; keeps their order if the provider does not number them. */
function sortByIndex(items: readonly Record<string, unknown>[]): Record<string, unknown>[] {
  const byIndex = new Map(items.map((item) => [parseTokenCount(item['index']), item]));
  const sorted = items.map((_, index) => byIndex.get(index));
  return sorted.every((item) => item !== undefined) ? sorted : [...items];
}

function isVector(value: unknown): value is Vector {
  if (typeof value === 'string')
    return value !== '' && Buffer.byteLength(value, 'base64') % 4 === 0;
  return Array.isArray(value) && value.length > 0 && value.every(Number.isFinite);
}
