/**
 * Reads the first choice of a `chat.completion` or `chat.completion.chunk`, whose fields a provider
 * may leave out.
 */
import { isRecord, textOf, type JsonObject } from '../../domain/json.ts';
import { anyJsonObject } from '../http/body-schema.ts';

/** Tool call, or a piece of a streamed tool call. */
export interface CallPiece {
  index: number;
  id: string;
  name: string;
  json: string;
  /** Data that the provider requires in the next request with the call; null if there is none. */
  extraContent: JsonObject | null;
}

/** Returns the tool calls in the first choice of an answer, or in its delta. */
export function callsOf(answer: unknown): CallPiece[] {
  const message = firstOf(answer);
  const calls = Array.isArray(message['tool_calls']) ? message['tool_calls'].filter(isRecord) : [];
  return calls.map((call, position) => {
    const fields = isRecord(call['function']) ? call['function'] : {};
    const { index } = call;
    return {
      index: typeof index === 'number' ? index : position,
      id: textOf(call['id']),
      name: textOf(fields['name']),
      json: textOf(fields['arguments']),
      extraContent: extraOf(call['extra_content']),
    };
  });
}

function extraOf(value: unknown): JsonObject | null {
  return isRecord(value) ? anyJsonObject.parse(value) : null;
}

/** Returns the message or the delta of the first choice; an empty object if there is none. */
export function firstOf(answer: unknown): Record<string, unknown> {
  const choices = isRecord(answer) ? answer['choices'] : null;
  const [first] = Array.isArray(choices) ? choices.filter(isRecord) : [];
  const message = first?.['message'] ?? first?.['delta'];
  return isRecord(message) ? message : {};
}
