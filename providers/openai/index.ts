/**
 * Adapter for OpenAI's Images API. Generations are sent as JSON, edits as a multipart form. The
 * response contains the pictures. A call whose connection is lost is not sent again, because OpenAI
 * may charge for it (docs/decisions/0003).
 *
 * Source: OpenAI's API reference, as gathered in docs/providers.md.
 */
import { z } from 'zod';
import type { Outbound } from '../../platform/outbound.ts';
import {
  contentPolicyFailure,
  toStatusFailure,
  readErrorBody,
  findRequestId,
} from '../error-responses.ts';
import {
  createExchange,
  createProviderAgent,
  sendCall,
  type ProviderResponse,
  type ProviderRequest,
} from '../provider-http.ts';
import type { ProviderFailure } from '../../domain/provider-failure.ts';
import { defineProvider } from '../provider-definition.ts';
import type { Provider, Submission, SubmitResult } from '../provider.ts';
import { createEditForm } from './edit-form.ts';
import { streamPictures } from './picture-stream.ts';
import { count, providerKey, webUrl } from '../../platform/variable-types.ts';

interface OpenaiOptions {
  apiKey: string;
  /** Base URL of the API, e.g. https://api.openai.com/v1 */
  baseUrl: string;
  /** Client that downloads the input images of edits. */
  outbound: Outbound;
}

const countedInput = z.object({ n: z.int().min(1).default(1) });
/** Schema of an error body of OpenAI: `{error: {message, type, param, code}}`. */
const errorBody = z.object({
  error: z.object({ code: z.string().nullish(), param: z.string().nullish() }),
});
const policyCodes = new Set(['moderation_blocked', 'content_policy_violation']);

/** Creates the adapter for OpenAI's Images API. */
function createOpenaiProvider(options: OpenaiOptions): Provider {
  const base = options.baseUrl.replace(/\/$/, '');
  // There is no timeout for the response headers, because OpenAI may need minutes for a picture.
  // The caller's signal ends the wait.
  const exchange = createExchange(createProviderAgent({ headersTimeout: 0, bodyTimeout: 60_000 }), {
    authorization: `Bearer ${options.apiKey}`,
  });

  async function postSubmission(
    { providerEndpoint, input, idempotencyKey, signal }: Submission,
    body: Pick<ProviderRequest, 'json' | 'body'>,
  ): Promise<SubmitResult> {
    const headers = { 'idempotency-key': idempotencyKey };
    const response = await sendCall(
      exchange({ url: `${base}/${providerEndpoint}`, headers, signal, ...body }),
    );
    if (response.status !== 200) throw await toSubmitFailure(response);
    const { n } = countedInput.parse(input);
    return {
      kind: 'result',
      result: { outputs: streamPictures(response.body, n), data: null },
      providerRequestId: findRequestId(response.headers),
    };
  }

  return {
    name: 'openai',
    operations: null,
    async submit(submission) {
      const { input, signal } = submission;
      if (submission.providerEndpoint !== 'images/edits')
        return postSubmission(submission, { json: input });
      const { form, discard } = await createEditForm(input, { outbound: options.outbound, signal });
      try {
        return await postSubmission(submission, { body: form });
      } finally {
        await discard();
      }
    },
  };
}

async function toSubmitFailure(response: ProviderResponse): Promise<ProviderFailure> {
  const error = errorBody.safeParse(await readErrorBody(response)).data?.error;
  if (error?.code && policyCodes.has(error.code)) return contentPolicyFailure(response);
  return toStatusFailure(response, {
    fields: error?.param ? [error.param] : [],
    isOwnError: error !== undefined,
  });
}

export default defineProvider({
  name: 'openai',
  variables: {
    OPENAI_IMAGES_API_KEY: providerKey.optional(),
    OPENAI_IMAGES_BASE_URL: webUrl.default('https://api.openai.com/v1'),
    OPENAI_IMAGES_CONCURRENCY: count(1, 2000).default(20),
  },
  key: 'OPENAI_IMAGES_API_KEY',
  traits: { notifies: false, submitTimeoutMs: 300_000 },
  concurrency: (settings) => settings.OPENAI_IMAGES_CONCURRENCY,
  create: ({ OPENAI_IMAGES_BASE_URL: baseUrl }, { apiKey, outbound }) =>
    createOpenaiProvider({ apiKey, baseUrl, outbound }),
  sandbox: (url) => ({ OPENAI_IMAGES_BASE_URL: `${url}/openai/v1` }),
});
