/**
 * Requests structured answers from models with Anthropic's protocol. Anthropic's own models accept
 * a strict schema. Other models must call a tool; its arguments become the text of the answer.
 */
import { asRecord, isRecord, type Json, type JsonObject } from '../../domain/json.ts';
import type { ChatBody } from '../chat-body.ts';
import type { ChatModel } from '../models.ts';
import { unsupportedField } from './protocol.ts';

/** Name of the tool whose arguments are the answer. */
export const answerTool = 'structured_answer';

/** Fields of Anthropic's request that produce a structured answer: an output format or a tool. */
export interface StructuredAnswer {
  format?: JsonObject;
  tool?: JsonObject;
}

/**
 * Translates the `response_format` of a request.
 * @throws GatewayError UNSUPPORTED_PARAMETER
 */
export function toStructuredAnswer(
  { model, body }: { model: ChatModel; body: ChatBody },
  isReasoning: boolean,
): StructuredAnswer {
  const { response_format: format, tool_choice: choice } = body;
  if (!format || format.type === 'text') return {};
  const definition = asRecord(format['json_schema']);
  const schema = asRecord(definition['schema']);
  const cannotForceTool =
    model.provider === 'anthropic' && (isReasoning || model.thinking === 'always');
  const isStrict = model.provider === 'anthropic' && definition['strict'] === true;
  if (format.type === 'json_schema' && (isStrict || cannotForceTool)) {
    return { format: { type: 'json_schema', schema: toStrictSchema(schema) } };
  }
  if (cannotForceTool) {
    const advice = 'json_object is not supported while this model reasons; use json_schema';
    throw unsupportedField('response_format', advice);
  }
  // A required tool call comes first; the structured answer is requested later in the tool loop.
  if (choice === 'required' || typeof choice === 'object') return {};
  const { description } = definition;
  return {
    tool: {
      name: answerTool,
      description:
        typeof description === 'string' ? description : 'Returns the answer to the user.',
      input_schema: { ...schema, type: 'object' },
    },
  };
}

/** Schema keywords that Anthropic rejects. */
const rejectedKeywords: ReadonlySet<string> = new Set([
  'minimum',
  'maximum',
  'exclusiveMinimum',
  'exclusiveMaximum',
  'multipleOf',
  'minLength',
  'maxLength',
  'maxItems',
  'uniqueItems',
  'minProperties',
  'maxProperties',
]);

/** Removes keywords that Anthropic rejects, and sets `additionalProperties` to false in objects. */
function toStrictSchema(schema: Record<string, unknown>): JsonObject {
  const entries = Object.entries(schema)
    .filter(([keyword]) => !rejectedKeywords.has(keyword))
    .map(([keyword, value]) => [keyword, toStrictValue(keyword, value)] as const);
  const isObject = schema['type'] === 'object' || 'properties' in schema;
  return { ...Object.fromEntries(entries), ...(isObject && { additionalProperties: false }) };
}

/** JSON Schema keywords whose value is an object with a schema for each name. */
const keywordsWithSchemas: ReadonlySet<string> = new Set(['properties', '$defs', 'definitions']);

function toStrictValue(keyword: string, value: unknown): Json {
  if (keywordsWithSchemas.has(keyword) && isRecord(value)) {
    const entries = Object.entries(value).map(
      ([name, part]) => [name, convertSchema(part)] as const,
    );
    return Object.fromEntries(entries);
  }
  if (['anyOf', 'oneOf', 'allOf'].includes(keyword) && Array.isArray(value)) {
    return value.map(convertSchema);
  }
  return keyword === 'items' ? convertSchema(value) : asJson(value);
}

function convertSchema(value: unknown): Json {
  return isRecord(value) ? toStrictSchema(value) : asJson(value);
}

function asJson(value: unknown): Json {
  // oxlint-disable-next-line no-unsafe-type-assertion -- a part of a parsed JSON body
  return value as Json;
}
