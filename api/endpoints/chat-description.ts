/** Description that the chat endpoints share: headers, size limit, errors, and an example. */
import { z } from 'zod';

/** Schema of the headers of a chat's response. */
export const chatHeaders = z.object({
  'X-Ignored-Fields': z.string().optional().meta({
    description:
      'Names of the fields of the request that were ignored, because they are not known here.',
    example: 'plugins, provider.order',
  }),
});

/** Size limit of a chat request in bytes. It is large because images are part of the request. */
export const chatBodyBytesMax = 20 * 1024 * 1024;

/** Error codes of chats. */
export const chatErrors = [
  'UNKNOWN_MODEL',
  'UNSUPPORTED_PARAMETER',
  'CONFLICTING_FIELDS',
  'INVALID_INPUT_URL',
  'CONTEXT_LENGTH_EXCEEDED',
  'PROVIDER_REJECTED_INPUT',
  'CONTENT_POLICY',
  'INSUFFICIENT_CREDITS',
  'KEY_LIMIT_EXCEEDED',
  'ANSWER_NOT_KEPT',
  'PROVIDER_ERROR',
  'DEADLINE_EXCEEDED',
  'OUTCOME_UNKNOWN',
] as const;

/** Example of a request. */
export const chatExample = {
  model: 'gpt-5-mini',
  messages: [{ role: 'user', content: 'What lights a harbour?' }],
  max_tokens: 100,
};
