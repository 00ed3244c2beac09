/**
 * Reads the first choice of a `chat.completion` or a `chat.completion.chunk`. Any field may be
 * missing, because providers omit fields.
 */
import { asRecord, isRecord, asText, type JsonObject } from '../../domain/json.ts';
import { anyJsonObject } from '../../domain/body-schema.ts';

/** Tool call, or a piece of a streamed tool call. */
export interface ToolCallPiece {
  index: number;
  id: string;
  name: string;
  json: string;
  /** `extra_content` to send back with the call, such as a thought signature. Null if none. */
  extraContent: JsonObject | null;
}

/** Returns the tool calls in the first choice of a completion or chunk. */
export function readToolCalls(answer: unknown): ToolCallPiece[] {
  const message = readFirstMessage(answer);
  const calls = Array.isArray(message['tool_calls']) ? message['tool_calls'].filter(isRecord) : [];
  return calls.map((call, position) => {
    const { index } = call;
    const fields = asRecord(call['function']);
    return {
      index: typeof index === 'number' ? index : position,
      id: asText(call['id']),
      name: asText(fields['name']),
      json: asText(fields['arguments']),
      extraContent: anyJsonObject.safeParse(call['extra_content']).data ?? null,
    };
  });
}

/** Returns the message or the delta of the first choice, or an empty object if there is none. */
export function readFirstMessage(answer: unknown): Record<string, unknown> {
  const { choices } = asRecord(answer);
  const [first] = Array.isArray(choices) ? choices.filter(isRecord) : [];
  return asRecord(first?.['message'] ?? first?.['delta']);
}
