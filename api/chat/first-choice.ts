/** Reads the first choice of a `chat.completion` or `chat.completion.chunk`, whose fields a provider may leave out. */
import { isRecord } from '../../domain/json.ts';

/** A tool call, or a piece of a streamed one. */
export interface CallPiece {
  index: number;
  id: string;
  name: string;
  json: string;
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
    };
  });
}

/** Returns the message or the delta of the first choice; an empty object if there is none. */
export function firstOf(answer: unknown): Record<string, unknown> {
  const choices = isRecord(answer) ? answer['choices'] : null;
  const [first] = Array.isArray(choices) ? choices.filter(isRecord) : [];
  const message = first?.['message'] ?? first?.['delta'];
  return isRecord(message) ? message : {};
}

/** Returns a string unchanged; an empty string for every other value. */
export function textOf(value: unknown): string {
  return typeof value === 'string' ? value : '';
}
