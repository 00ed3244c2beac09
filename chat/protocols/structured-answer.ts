/**
 * Structured answers of models with Anthropic's protocol. Anthropic's own models accept a strict
 * schema. Other models are forced to call a tool, whose arguments become the text of the answer.
 */
import { fieldsOf, isRecord, type Json, type JsonObject } from '../../domain/json.ts';
import type { ChatBody } from '../chat-body.ts';
import type { ChatModel } from '../../catalog/chat-model.ts';
import { unsupported } from './protocol.ts';

/** Name of the tool whose arguments are the answer. */
export const answerTool = 'structured_answer';

/** Fields of Anthropic's request for a structured answer: a format, or a tool. */
export interface StructuredAnswer {
  format?: JsonObject;
  tool?: JsonObject;
}

/**
 * Returns the fields for the `response_format` of a request.
 * @throws GatewayError UNSUPPORTED_PARAMETER
 */
export function structuredAnswer(
  { model, body }: { model: ChatModel; body: ChatBody },
  thinks: boolean,
): StructuredAnswer {
  const { response_format: format, tool_choice: choice } = body;
  if (!format || format.type === 'text') return {};
  const definition = fieldsOf(format['json_schema']);
  const schema = fieldsOf(definition['schema']);
  const isUnforceable = model.provider === 'anthropic' && (thinks || model.thinking === 'always');
  const isStrict = model.provider === 'anthropic' && definition['strict'] === true;
  if (format.type === 'json_schema' && (isStrict || isUnforceable)) {
    return { format: { type: 'json_schema', schema: constrained(schema) } };
  }
  if (isUnforceable) {
    const advice = 'this model cannot be forced to answer in JSON while it thinks; use json_schema';
    throw unsupported('response_format', advice);
  }
  // A tool call that the caller requires has priority; the structured answer follows in a later
  // request.
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

/** Keywords that Anthropic rejects in the schema of an answer. */
const rejected: ReadonlySet<string> = new Set([
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

/**
 * Returns a schema without the keywords that Anthropic rejects; its objects allow only the fields
 * that it names.
 */
function constrained(schema: Record<string, unknown>): JsonObject {
  const entries = Object.entries(schema)
    .filter(([keyword]) => !rejected.has(keyword))
    .map(([keyword, value]) => [keyword, constrainedIn(keyword, value)] as const);
  const isObject = schema['type'] === 'object' || 'properties' in schema;
  return { ...Object.fromEntries(entries), ...(isObject && { additionalProperties: false }) };
}

/** Keywords whose values are schemas by name. */
const named: ReadonlySet<string> = new Set(['properties', '$defs', 'definitions']);

function constrainedIn(keyword: string, value: unknown): Json {
  if (named.has(keyword) && isRecord(value)) {
    const entries = Object.entries(value).map(([name, each]) => [name, schemaOf(each)] as const);
    return Object.fromEntries(entries);
  }
  if (['anyOf', 'oneOf', 'allOf'].includes(keyword) && Array.isArray(value)) {
    return value.map(schemaOf);
  }
  return keyword === 'items' ? schemaOf(value) : asJson(value);
}

function schemaOf(value: unknown): Json {
  return isRecord(value) ? constrained(value) : asJson(value);
}

function asJson(value: unknown): Json {
  // oxlint-disable-next-line no-unsafe-type-assertion -- a part of a parsed JSON body
  return value as Json;
}
