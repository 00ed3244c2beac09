/**
 * Requests structured answers from models with Anthropic's protocol. Anthropic's own models accept
 * a strict schema. Other models must call a tool; its arguments become the text of the answer.
 */
import { asRecord, isRecord, type JsonObject } from '../../domain/json.ts';
import type { ChatBody } from '../chat-body.ts';
import type { ChatModel } from '../models.ts';
import { unsupportedField } from './protocol.ts';
import { isRecursive, toStrictSchema } from './strict-schema.ts';

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
  const schema = asObject(definition['schema']);
  const cannotForceTool =
    model.provider === 'anthropic' && (isReasoning || model.thinking === 'always');
  const isStrict = model.provider === 'anthropic' && definition['strict'] === true;
  if (format.type === 'json_schema' && (isStrict || cannotForceTool)) {
    const strictSchema = convertStrictSchema(schema, 'response_format');
    return { format: { type: 'json_schema', schema: strictSchema } };
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

/**
 * Converts the schema in a field to one that Anthropic accepts as strict.
 * @throws GatewayError UNSUPPORTED_PARAMETER if it is recursive
 */
export function convertStrictSchema(schema: JsonObject, field: string): JsonObject {
  if (!isRecursive(schema)) return toStrictSchema(schema);
  throw unsupportedField(field, 'must not be recursive with strict: true: this model rejects it');
}

function asObject(value: unknown): JsonObject {
  // oxlint-disable-next-line no-unsafe-type-assertion -- a part of a parsed JSON body
  return isRecord(value) ? (value as JsonObject) : {};
}
