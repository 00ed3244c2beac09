/** Anthropic Messages. Sources: the types of @anthropic-ai/sdk and Anthropic's API reference. */
import { z } from 'zod';
import { upstreamRefused } from '../upstream-failures.ts';
import { AnthropicReader, decodeAnthropic } from './anthropic-answer.ts';
import { encodeAnthropic } from './anthropic-request.ts';
import type { ChatProtocol } from './protocol.ts';

const errorShape = z.object({
  error: z.object({ type: z.string().nullish(), message: z.string().nullish() }),
});

/** See the file's head. */
export const anthropicProtocol: ChatProtocol = {
  path: '/v1/messages',
  headers: (apiKey) => ({ 'x-api-key': apiKey, 'anthropic-version': '2023-06-01' }),
  encode: encodeAnthropic,
  boundField: () => 'max_tokens',
  decode: decodeAnthropic,
  createReader: () => new AnthropicReader(),
  failureOf({ status, body, retryAfter }) {
    const error = errorShape.safeParse(body).data?.error;
    return upstreamRefused(status, {
      message: error?.message ?? '',
      code: error?.type ?? '',
      param: '',
      retryAfter,
    });
  },
};
