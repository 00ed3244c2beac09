/**
 * Requests and responses of POST /api/v1/embeddings. A request is a chat request without messages,
 * so that it is reserved, called and charged as a chat is.
 *
 * Source: the types of the `openai` client, `EmbeddingCreateParams`.
 */
import { z } from 'zod';
import type { ChatModel, EmbeddingProperties } from '../models.ts';
import type { EmbeddingInput } from '../chat-body.ts';
import { countMinimumTokens } from '../input-count.ts';
import { sendsBase64, type Vector } from '../protocols/embeddings-protocol.ts';
import { fieldError, GatewayError } from '../../domain/errors.ts';
import { formatReceived } from '../../domain/field-messages.ts';
import { completionsPresentation, type Presentation } from './completions-answer.ts';
import { type ChatRequest, convertTags, tagFields, textSchema } from './chat-fields.ts';
import { sharedFields } from './completions-request.ts';

const inputsMax = 2048;
/** Maximum number of tokens of all inputs together, as at OpenAI. */
const tokensMax = 300_000;

const inputForms = z.union([
  textSchema.min(1),
  z.array(textSchema.min(1)).min(1).max(inputsMax),
  z.array(z.int().min(0)).min(1).max(tokensMax),
  z
    .array(z.array(z.int().min(0)).min(1).max(tokensMax))
    .min(1)
    .max(inputsMax),
]);
const { $schema: _, ...inputJsonSchema } = z.toJSONSchema(inputForms, { io: 'input' });
const inputRule = `must be a text, up to ${inputsMax} texts, a list of tokens, or up to ${inputsMax} lists of tokens`;

/** Schema of `input`. It is checked without `inputForms`, which is slow for thousands of tokens. */
const inputSchema = z
  .custom<unknown>((value) => typeof value === 'string' || Array.isArray(value), inputRule)
  .meta({
    ...inputJsonSchema,
    override: ({ jsonSchema }: { jsonSchema: object }) => {
      Object.assign(jsonSchema, inputJsonSchema);
    },
  })
  .transform((value, ctx): EmbeddingInput['inputs'] => {
    const isList = Array.isArray(value) && !isToken(value[0]);
    const list: unknown[] = isList ? value : [value];
    const problem = findProblem(list, isList);
    if (problem) ctx.addIssue({ code: 'custom', ...problem });
    // oxlint-disable-next-line no-unsafe-type-assertion -- `findProblem` has checked every input
    return list as EmbeddingInput['inputs'];
  });

interface Problem {
  path: number[];
  message: string;
}

/** Returns the first invalid input of a list; its path contains the index if `isList` is true. */
function findProblem(list: readonly unknown[], isList: boolean): Problem | null {
  if (list.length === 0) return { path: [], message: 'must contain at least one input' };
  if (list.length > inputsMax)
    return { path: [], message: `must contain at most ${inputsMax} inputs, has ${list.length}` };
  const areTexts = typeof list[0] === 'string';
  for (const [index, input] of list.entries()) {
    const message =
      index === 0 && !areTexts && !Array.isArray(input)
        ? 'must be a text or a list of tokens'
        : findInputProblem(input, areTexts);
    if (message !== null) return { path: isList ? [index] : [], message };
  }
  const tokens = list.reduce<number>(
    (sum, input) => sum + (Array.isArray(input) ? input.length : 0),
    0,
  );
  if (tokens <= tokensMax) return null;
  return { path: [], message: `must contain at most ${tokensMax} tokens, has ${tokens}` };
}

function findInputProblem(input: unknown, areTexts: boolean): string | null {
  if (typeof input === 'string' && areTexts) return input === '' ? 'must not be empty' : null;
  if (!Array.isArray(input) || areTexts)
    return areTexts ? 'must be a text' : 'must be a list of tokens';
  if (input.length === 0) return 'must contain at least one token';
  return input.every(isToken) ? null : 'must contain only tokens, which are integers from 0';
}

function isToken(value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0;
}

/** Schema of the body of POST /api/v1/embeddings. Unknown fields are dropped. */
export const embeddingsRequestSchema = z
  .object({
    model: sharedFields.model,
    input: inputSchema,
    dimensions: z.int().min(1).nullish(),
    encoding_format: z.enum(['float', 'base64']).nullish(),
    user: sharedFields.user,
    ...tagFields,
  })
  .transform(({ model, input, dimensions, encoding_format: format, ...tags }): ChatRequest => {
    const embedding = {
      inputs: input,
      format: format ?? 'float',
      ...(dimensions && { dimensions }),
    };
    return {
      model,
      maxTokens: null,
      stream: false,
      includeUsage: false,
      ...convertTags(tags),
      body: { messages: [], embedding, ...(tags.user != null && { user: tags.user }) },
    };
  });

/**
 * Checks that a model supports a request.
 * @throws GatewayError INVALID_REQUEST, UNSUPPORTED_PARAMETER, CONTEXT_LENGTH_EXCEEDED
 */
export function checkEmbedding(request: EmbeddingInput, model: ChatModel): void {
  const { id, limit, embedding } = model;
  if (embedding) {
    checkProperties(request, { id, ...embedding });
    checkNumbers(request, model, request.dimensions ?? embedding.dimensions);
  }
  for (const [index, input] of request.inputs.entries()) {
    const tokens =
      typeof input === 'string' ? countMinimumTokens([input], limit.context) : input.length;
    if (tokens <= limit.context) continue;
    const path = request.inputs.length === 1 ? 'input' : `input.${index}`;
    const size = `it has more than ${limit.context} tokens`;
    const message = `${path} is too long: ${size}, the maximum context length of ${id}.`;
    const details = [{ path, message: `must have at most ${limit.context} tokens` }];
    throw new GatewayError('CONTEXT_LENGTH_EXCEEDED', message, { details });
  }
}

function checkProperties(
  { inputs, dimensions }: EmbeddingInput,
  model: EmbeddingProperties & { id: string },
): void {
  const { id, dimensionsMax: max } = model;
  if (inputs.length > model.inputsMax) {
    const message = `must contain at most ${model.inputsMax} inputs with ${id}, has ${inputs.length}`;
    throw fieldError('INVALID_REQUEST', 'input', message);
  }
  if (typeof inputs[0] !== 'string' && !model.acceptsTokens) {
    const message = `must be text: ${id} does not accept tokens`;
    throw fieldError('UNSUPPORTED_PARAMETER', 'input', message);
  }
  if (dimensions === undefined || dimensions === model.dimensions) return;
  if (max === undefined) {
    const message = `must be ${model.dimensions} with ${id}${formatReceived(dimensions)}`;
    throw fieldError('UNSUPPORTED_PARAMETER', 'dimensions', message);
  }
  if (dimensions > max) {
    const message = `must be at most ${max} with ${id}${formatReceived(dimensions)}`;
    throw fieldError('INVALID_REQUEST', 'dimensions', message);
  }
}

/**
 * Maximum number of decimal numbers in an answer: 2,048 vectors of 1,536. Base64 is a quarter of
 * their size, and has no limit but those of the inputs and of the vectors.
 */
const decimalsMax = inputsMax * 1536;

function checkNumbers(
  { inputs, format }: EmbeddingInput,
  model: ChatModel,
  dimensions: number,
): void {
  const count = Math.floor(decimalsMax / dimensions);
  const canBeBase64 = sendsBase64(model);
  if (inputs.length <= count || (format === 'base64' && canBeBase64)) return;
  const advice = canBeBase64 ? '; `encoding_format: base64` allows more' : '';
  const message = `must contain at most ${count} inputs with vectors of ${dimensions} numbers, has ${inputs.length}${advice}`;
  throw fieldError('INVALID_REQUEST', 'input', message);
}

/** Schema of the response. */
export const embeddingsResponse = z.object({
  object: z.literal('list'),
  data: z.array(
    z.object({
      object: z.literal('embedding'),
      index: z.int(),
      embedding: z.union([z.array(z.number()), z.string()]).meta({
        description: 'Numbers, or base64 of little-endian 32-bit floats.',
      }),
    }),
  ),
  model: z.string(),
  usage: z.object({ prompt_tokens: z.int(), total_tokens: z.int() }),
  id: z.string(),
  creditsConsumed: z.number().nullable(),
});

/** Formats responses. An embedding request is never streamed, so only `body` is called. */
export const embeddingsPresentation: Presentation = {
  ...completionsPresentation,
  body({ chat, request }, { completion }, { usage, creditsConsumed }) {
    const format = request.body.embedding?.format === 'base64' ? toBase64 : toNumbers;
    // oxlint-disable-next-line no-unsafe-type-assertion -- the protocol of embedding models has decoded the vectors
    const vectors = completion['vectors'] as readonly Vector[];
    return JSON.stringify({
      object: 'list',
      data: vectors.map((vector, index) => ({
        object: 'embedding',
        index,
        embedding: format(vector),
      })),
      model: chat.servedBy.model,
      usage: { prompt_tokens: usage.inputTokens, total_tokens: usage.inputTokens },
      id: chat.id,
      creditsConsumed,
    } satisfies z.infer<typeof embeddingsResponse>);
  },
};

function toBase64(vector: Vector): string {
  return typeof vector === 'string'
    ? vector
    : Buffer.from(Float32Array.from(vector).buffer).toString('base64');
}

function toNumbers(vector: Vector): number[] {
  if (typeof vector !== 'string') return [...vector];
  // The copy begins at a multiple of four bytes, as Float32Array requires.
  const bytes = Uint8Array.from(Buffer.from(vector, 'base64'));
  return Array.from(new Float32Array(bytes.buffer));
}
