/**
 * OpenAI's Images API: generations as JSON, edits as a form. It answers with the pictures themselves,
 * so a broken connection is never asked again: the work may be paid for (docs/decisions/0003).
 *
 * Source: OpenAI's API reference, as gathered in docs/providers.md.
 */
import { Agent, request, type Dispatcher, type FormData } from 'undici';
import { z } from 'zod';
import type { Outbound } from '../../../platform/outbound.ts';
import type { Provider, Submission, Submitted } from '../provider.ts';
import { failureOfTransport } from '../transport-failures.ts';
import { createEditForm } from './edit-form.ts';
import { failureOfAnswer } from './openai-failures.ts';
import { streamPictures } from './picture-stream.ts';

interface OpenaiOptions {
  apiKey: string;
  /** e.g. https://api.openai.com/v1 */
  baseUrl: string;
  /** Reads the input pictures of edits. */
  outbound: Outbound;
}

const counted = z.object({ n: z.int().min(1).default(1) });
const errorBytesMax = 64 * 1024;

/** The openai provider. */
export function createOpenaiProvider(options: OpenaiOptions): Provider {
  const base = options.baseUrl.replace(/\/$/, '');
  // A picture may take minutes before the first byte; the caller's signal ends the wait.
  const agent = new Agent({
    connect: { timeout: 5000 },
    headersTimeout: 0,
    bodyTimeout: 60_000,
    keepAliveTimeout: 30_000,
  });

  async function post(submission: Submission, body: string | FormData): Promise<Submitted> {
    let answer: Dispatcher.ResponseData;
    try {
      answer = await request(`${base}/${submission.operation}`, {
        method: 'POST',
        dispatcher: agent,
        signal: submission.signal,
        headers: {
          authorization: `Bearer ${options.apiKey}`,
          'accept-encoding': 'identity',
          'idempotency-key': submission.idempotencyKey,
          ...(typeof body === 'string' && { 'content-type': 'application/json' }),
        },
        body,
      });
    } catch (error) {
      throw failureOfTransport(error);
    }
    const { statusCode: status, headers } = answer;
    if (status !== 200) {
      throw failureOfAnswer({ status, headers, body: await readError(answer.body) });
    }
    const { n } = counted.parse(submission.input);
    return {
      kind: 'result',
      result: { outputs: streamPictures(answer.body, n), data: null },
    };
  }

  return {
    name: 'openai',
    queue: null,
    async submit(submission) {
      if (submission.operation !== 'images/edits') {
        return post(submission, JSON.stringify(submission.input));
      }
      const { form, discard } = await createEditForm(submission.input, {
        outbound: options.outbound,
        signal: submission.signal,
      });
      try {
        return await post(submission, form);
      } finally {
        await discard();
      }
    },
  };
}

/** The body of an error, if it is a short JSON document. */
async function readError(body: Dispatcher.ResponseData['body']): Promise<unknown> {
  const chunks: Buffer[] = [];
  let size = 0;
  try {
    const source: AsyncIterable<Buffer> = body;
    for await (const chunk of source) {
      size += chunk.length;
      if (size > errorBytesMax) return undefined;
      chunks.push(chunk);
    }
    return JSON.parse(Buffer.concat(chunks).toString('utf8'));
  } catch {
    return undefined;
  }
}
