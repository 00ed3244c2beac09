/**
 * Simulates embeddings in OpenAI's format, with the differences between OpenAI, Google and Mistral. The same input always
 * has the same vector, of length 1.
 */
import { createHash } from 'node:crypto';
import { z } from 'zod';
import { findFault, withoutMarkers, type Fault } from '../faults.ts';
import { countTokens } from './script.ts';

const token = z.int().min(0);
const embeddingsRequest = z.strictObject({
  model: z.string().min(1),
  input: z.union([
    z.string().min(1),
    z.array(z.string().min(1)).min(1).max(2048),
    z.array(token).min(1),
    z.array(z.array(token).min(1)).min(1).max(2048),
  ]),
  dimensions: z.int().positive().optional(),
  output_dimension: z.int().positive().optional(),
  encoding_format: z.enum(['float', 'base64']).optional(),
  user: z.string().max(64).optional(),
});
type EmbeddingsRequest = z.infer<typeof embeddingsRequest>;
type Input = string | number[];

/** Limits of a model. `dimensionsField` is null if the length of its vectors is fixed. */
interface Model {
  pattern: RegExp;
  dimensions: number;
  dimensionsField: 'dimensions' | 'output_dimension' | null;
  inputsMax: number;
  /** Whether the model accepts tokens, base64 and `user`, as OpenAI's do. */
  isOpenai: boolean;
  reportsUsage: boolean;
}

const openai = {
  inputsMax: 2048,
  isOpenai: true,
  reportsUsage: true,
  dimensionsField: 'dimensions',
} as const;
const mistral = { inputsMax: 2048, isOpenai: false, reportsUsage: true } as const;
const models: readonly Model[] = [
  { pattern: /3-large$/, dimensions: 3072, ...openai },
  { pattern: /ada-002$/, dimensions: 1536, ...openai, dimensionsField: null },
  {
    pattern: /^gemini/,
    dimensions: 3072,
    dimensionsField: 'dimensions',
    inputsMax: 100,
    isOpenai: false,
    reportsUsage: false,
  },
  { pattern: /^codestral/, dimensions: 1536, dimensionsField: 'output_dimension', ...mistral },
  { pattern: /^mistral/, dimensions: 1024, dimensionsField: null, ...mistral },
  { pattern: /./, dimensions: 1536, ...openai },
];

function listInputs({ input }: EmbeddingsRequest): readonly Input[] {
  if (typeof input === 'string') return [input];
  // oxlint-disable-next-line no-unsafe-type-assertion -- a list that begins with a number contains only numbers
  return typeof input[0] === 'number' ? [input as number[]] : (input as Input[]);
}

/** Returns the error message for a request that the provider of the model rejects; otherwise null. */
function findError(request: EmbeddingsRequest, model: Model): string | null {
  const inputs = listInputs(request);
  if (inputs.length > model.inputsMax)
    return `at most ${model.inputsMax} requests can be in one batch`;
  for (const field of ['dimensions', 'output_dimension'] as const) {
    if (request[field] !== undefined && model.dimensionsField !== field)
      return `${field}: Extra inputs are not permitted`;
  }
  if (model.isOpenai) return null;
  if (request.encoding_format === 'base64') return 'encoding_format: base64 is not supported';
  if (request.user !== undefined) return 'user: Extra inputs are not permitted';
  return inputs.every((input) => typeof input === 'string') ? null : 'input: must be text';
}

/** Derives a vector of length 1 from an input. */
function buildVector(input: Input, dimensions: number): Float32Array {
  const text = typeof input === 'string' ? withoutMarkers(input) : input.join(' ');
  const bytes = createHash('shake256', { outputLength: dimensions * 2 })
    .update(text)
    .digest();
  const numbers = Array.from(
    { length: dimensions },
    (_, index) => bytes.readInt16LE(index * 2) + 0.5,
  );
  const length = Math.hypot(...numbers);
  return Float32Array.from(numbers, (number) => number / length);
}

/** Valid request. */
export interface ParsedEmbeddings {
  model: string;
  /** First text, which may contain fault markers. */
  question: string;
  answer: (faults: readonly Fault[]) => unknown;
}

/** Parses a request; returns an error message if it is invalid. */
export function readEmbeddings(body: unknown): ParsedEmbeddings | string {
  const parsed = embeddingsRequest.safeParse(body);
  if (!parsed.success) return z.prettifyError(parsed.error);
  const request = parsed.data;
  const model = models.find(({ pattern }) => pattern.test(request.model));
  if (!model) return 'no such model';
  const fault = findError(request, model);
  if (fault !== null) return fault;
  const inputs = listInputs(request);
  const [first] = inputs;
  return {
    model: request.model,
    question: typeof first === 'string' ? first : '',
    answer: (faults) => buildAnswer(request, model, faults),
  };
}

function buildAnswer(request: EmbeddingsRequest, model: Model, faults: readonly Fault[]): unknown {
  const inputs = listInputs(request);
  const dimensions = request.dimensions ?? request.output_dimension ?? model.dimensions;
  const tokens = inputs.map((input) =>
    typeof input === 'string' ? Math.max(1, countTokens(withoutMarkers(input))) : input.length,
  );
  const lie = findFault(faults, 'lying-usage');
  const total =
    tokens.reduce((sum, count) => sum + count, 0) * (lie ? Number(lie.argument || 10) : 1);
  const reportsUsage = model.reportsUsage && !findFault(faults, 'no-usage');
  return {
    object: 'list',
    data: inputs.map((input, index) => {
      const vector = buildVector(input, dimensions);
      const embedding =
        request.encoding_format === 'base64'
          ? Buffer.from(vector.buffer).toString('base64')
          : Array.from(vector);
      return { object: 'embedding', index, embedding };
    }),
    model: request.model,
    ...(reportsUsage && { usage: { prompt_tokens: total, total_tokens: total } }),
  };
}
