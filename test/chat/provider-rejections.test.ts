/** Rejections of providers: prompts that are too long, wrong fields, and limits of tokens per minute. */
import { describe, expect, it } from 'vitest';
import { useGateway } from '../harness/gateway.ts';
import { postChat } from './raw-chat.ts';
import { doors, startRecordingProvider } from './recording-provider.ts';

const provider = await startRecordingProvider();
const gateway = useGateway({ settled: 'last', env: provider.env });

interface SentError {
  error: { code: string | null; message: string; param: string | null };
}

/** Sends a chat that the provider rejects, and returns the status and the error. */
async function reject(door: string, body: object, status = 400, stream = false) {
  provider.answer({ status, body: JSON.stringify(body) });
  const messages = [{ role: 'user', content: 'q' }];
  const chat = { model: 'gpt-4.1-mini', max_tokens: 10, messages, stream };
  const response = await postChat(gateway, gateway.caller, {
    path: door,
    body: door === '/responses' ? { model: chat.model, input: 'q', stream } : chat,
  });
  const answer = (await response.json()) as SentError;
  return { status: response.status, ...answer.error, body: answer };
}

const openai = (message: string, fields: object = {}) => ({
  error: { message, type: 'invalid_request_error', param: null, code: null, ...fields },
});

describe('a prompt that is too long', () => {
  it.each([
    [
      'xAI',
      {
        code: 'Client specified an invalid argument',
        error:
          "This model's maximum prompt length is 256000 but the request contains 300000 tokens.",
      },
      ': 300000 tokens > 256000 maximum.',
    ],
    ['Z.ai', openai('Prompt exceeds max length', { code: '1261' }), '.'],
    [
      'Moonshot AI',
      openai('Invalid request: Your request exceeded model token limit: 262144'),
      ': more than 262144 tokens, the maximum.',
    ],
    [
      'llama.cpp',
      {
        error: {
          code: 400,
          message: 'the request exceeds the available context size, try increasing it',
          type: 'exceed_context_size_error',
          n_prompt_tokens: 9000,
          n_ctx: 4096,
        },
      },
      ': 9000 tokens > 4096 maximum.',
    ],
    [
      'Anthropic, with the answer',
      openai(
        'input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease input length or `max_tokens` and try again',
      ),
      ': 210000 tokens > 200000 maximum.',
    ],
    [
      'Anthropic',
      openai('prompt is too long: 215000 tokens > 200000 maximum'),
      ': 215000 tokens > 200000 maximum.',
    ],
    [
      'OpenAI',
      openai(
        "This model's maximum context length is 128000 tokens. However, you requested 140000 tokens (130000 in the messages, 10000 in the completion).",
        { code: 'context_length_exceeded', param: 'messages' },
      ),
      ': 140000 tokens > 128000 maximum.',
    ],
    [
      'Google',
      [
        {
          error: {
            code: 400,
            message:
              'The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).',
            status: 'INVALID_ARGUMENT',
          },
        },
      ],
      ': 1200000 tokens > 1048576 maximum.',
    ],
    [
      'Mistral',
      {
        object: 'error',
        message:
          'Prompt contains 65673 tokens and 0 draft tokens, too large for model with 32768 maximum context length',
        type: 'invalid_request_error',
      },
      ': 65673 tokens > 32768 maximum.',
    ],
    [
      'Together',
      openai("The input (9,500 tokens) is longer than the model's context length (8,192 tokens)."),
      ': 9500 tokens > 8192 maximum.',
    ],
    ['Groq', openai('Please reduce the length of the messages or completion.'), '.'],
  ])('is reported alike, as by %s', async (_name, body, counts) => {
    for (const door of [...doors, '/chat']) {
      const error = await reject(door, body);
      const message = error.message ?? (error.body as unknown as { message: string }).message;
      expect(error.status).toBe(400);
      expect(message.startsWith(`prompt is too long${counts} The provider rejected`)).toBe(true);
      const code = { '/messages': 'CONTEXT_LENGTH_EXCEEDED', '/chat': undefined }[door];
      expect(error.code).toBe(
        door in { '/messages': 1, '/chat': 1 } ? code : 'context_length_exceeded',
      );
    }
  });

  it('is not a request above a limit of tokens per minute', async () => {
    const message =
      'Request too large for model `x` in organization `org_0123456789` on tokens per minute (TPM): Limit 6000, Requested 9000';
    const error = { message, type: 'tokens', code: 'rate_limit_exceeded' };
    expect(await reject('/chat/completions', { error }, 413)).toMatchObject({
      status: 503,
      code: 'SERVICE_UNAVAILABLE',
    });
  });
});

it('the field and the code of a provider’s error are those of the caller’s error', async () => {
  const body = openai("Unsupported value: 'temperature'", {
    param: 'temperature',
    code: 'unsupported_value',
  });
  for (const door of ['/chat/completions', '/responses']) {
    expect(await reject(door, body)).toMatchObject({
      status: 400,
      param: 'temperature',
      code: 'unsupported_value',
      message: "The provider rejected the input: Unsupported value: 'temperature'",
    });
  }
  const { body: message } = await reject('/messages', body);
  expect(message).toMatchObject({
    error: { type: 'invalid_request_error', code: 'PROVIDER_REJECTED_INPUT' },
    details: [{ path: 'temperature', message: "Unsupported value: 'temperature'" }],
  });
});
