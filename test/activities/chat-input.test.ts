/** Input tokens of a chat: whatever field is long, the bound covers it, so that it is reserved before it is sent. */
import * as fc from 'fast-check';
import { expect, it } from 'vitest';
import type { ChatBody } from '../../activities/chat/chat-body.ts';
import { countInput } from '../../activities/chat/chat-price.ts';

/** Keys of values that are not text of the input: enumerations, identifiers, and media, which have rules of their own. */
const notText = new Set(
  'role type detail format url data file_data user metadata prompt_cache_key safety_identifier'.split(
    ' ',
  ),
);

/** Adds up the UTF-8 bytes of all texts in a value. */
function textBytes(value: unknown): number {
  if (typeof value === 'string') return Buffer.byteLength(value);
  if (typeof value !== 'object' || value === null) return 0;
  return Object.entries(value).reduce(
    (sum, [name, each]) => sum + (notText.has(name) ? 0 : textBytes(each)),
    0,
  );
}

const text = fc.string({ unit: 'grapheme', maxLength: 300 });
const json = fc.dictionary(fc.string({ maxLength: 8 }), text, {
  maxKeys: 3,
  noNullPrototype: true,
});
const part = fc.oneof(
  fc.record({ type: fc.constant('text' as const), text }),
  fc.record({ type: fc.constant('refusal' as const), refusal: text }),
  fc.record({
    type: fc.constant('file' as const),
    file: fc.record({ file_data: text, filename: text }),
  }),
);
const toolCall = fc.record({
  id: text,
  type: fc.constant('function' as const),
  function: fc.record({ name: text, arguments: text }),
});
const message = fc.record(
  {
    role: fc.constantFrom('system' as const, 'user' as const, 'assistant' as const),
    content: fc.oneof(text, fc.array(part, { maxLength: 3 }), fc.constant(null)),
    name: text,
    refusal: text,
    tool_calls: fc.array(toolCall, { maxLength: 2 }),
    tool_call_id: text,
  },
  { requiredKeys: ['role'] },
);
const body: fc.Arbitrary<ChatBody> = fc.record(
  {
    messages: fc.array(message, { minLength: 1, maxLength: 3 }),
    stop: fc.oneof(text, fc.array(text, { maxLength: 2 })),
    tools: fc.array(
      fc.record({
        type: fc.constant('function' as const),
        function: fc.record({ name: text, description: text, parameters: json }),
      }),
      { maxLength: 2 },
    ),
    response_format: fc.record({ type: fc.constant('json_schema'), json_schema: json }),
    user: text,
    metadata: json,
    prediction: json,
    prompt_cache_key: text,
    safety_identifier: text,
  },
  { requiredKeys: ['messages'] },
);

it('covers the text of every field', () => {
  fc.assert(
    fc.property(body, (request) => {
      expect(countInput(request).bound).toBeGreaterThanOrEqual(textBytes(request));
    }),
    { numRuns: 2000 },
  );
});

it('covers a refusal of a million characters in an earlier answer', () => {
  const refusal = 'x'.repeat(1_000_000);
  const { bound } = countInput({ messages: [{ role: 'assistant', content: 'no', refusal }] });
  expect(bound).toBeGreaterThanOrEqual(refusal.length);
});
