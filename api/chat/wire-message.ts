/** A message of a chat as callers send it → as upstreams are told of it. */
import type { ChatMessage } from '../../activities/chat/chat-body.ts';
import { assert } from '../../domain/assert.ts';

/** A message whose schema has been checked. */
export interface WireMessage {
  role: string;
}

/** Fields of answers that no upstream takes back. */
const answerOnly = new Set([
  'audio',
  'function_call',
  'annotations',
  'reasoning_content',
  'parsed',
]);

/** Without what is `null`, and what only answers have; a developer's message is a system message. */
export function toMessage(wire: WireMessage): ChatMessage {
  const message: Record<string, unknown> & { role: string } = { role: 'system' };
  for (const [field, value] of Object.entries(wire)) {
    if (value != null && !answerOnly.has(field)) message[field] = value;
  }
  if (wire.role === 'developer') message.role = 'system';
  assertMessage(message);
  return message;
}

/** Names the type of what the schemas above have checked. */
function assertMessage(value: { role: string }): asserts value is ChatMessage {
  assert(value.role !== 'developer', 'upstreams are told of system messages');
}
