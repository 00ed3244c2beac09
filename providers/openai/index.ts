/**
 * Adapter for OpenAI's Images API. Generations are sent as JSON, edits as a multipart form. The
 * response contains the pictures. A call whose connection is lost is not sent again, because OpenAI
 * may charge for it (docs/decisions/0003).
 *
 * Source: OpenAI's API reference, as gathered in docs/providers.md.
 */
import { randomUUID } from 'node:crypto';
import { openAsBlob } from 'node:fs';
import { mkdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import sharp from 'sharp';
import { FormData } from 'undici';
import { z } from 'zod';
import type { JsonObject } from '../../domain/json.ts';
import { OutboundError, type Outbound } from '../../platform/outbound.ts';
import { writeSpoolFile } from '../../storage/spool.ts';
import { ProviderFailure } from '../../domain/provider-failure.ts';
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
import { defineProvider, type Provider, type Submission, type SubmitResult } from '../provider.ts';
import { streamPictures } from './picture-stream.ts';
import { count, providerKey, webUrl } from '../../platform/variable-types.ts';

interface EditFormOptions {
  outbound: Outbound;
  signal: AbortSignal;
}

/** Multipart form of an image edit. `discard` deletes its temporary files. */
export interface EditForm {
  form: FormData;
  discard: () => Promise<void>;
}

interface Picture {
  path: string;
  format: string;
  width: number;
  height: number;
}

const editInput = z
  .object({ image_urls: z.array(z.string()).min(1), mask_url: z.string().optional() })
  .catchall(z.union([z.string(), z.number()]));

const pictureBytesMax = 25 * 1024 * 1024;
/** Maximum number of pixels of a picture; a mask needs one byte of memory per pixel. */
const pixelsMax = 64_000_000;
const fetchTimeoutMs = 60_000;

/**
 * Creates the form of an image edit.
 * @throws ProviderFailure `rejected` if a picture is not usable; `not_accepted` if the form cannot
 * be created now
 */
async function createEditForm(input: JsonObject, options: EditFormOptions): Promise<EditForm> {
  const { image_urls: urls, mask_url: maskUrl, ...fields } = editInput.parse(input);
  const directory = join(tmpdir(), `image-edit-${randomUUID()}`);
  const discard = (): Promise<void> => rm(directory, { recursive: true, force: true });
  const downloadPicture = (url: string, name: string): Promise<Picture> =>
    fetchPicture(url, join(directory, name), options);
  try {
    await mkdir(directory, { mode: 0o700 });
    const pictures = await Promise.all(
      urls.map((url, index) => downloadPicture(url, `image-${index}`)),
    );
    const mask = maskUrl === undefined ? undefined : await downloadPicture(maskUrl, 'mask');
    const form = new FormData();
    for (const [name, value] of Object.entries(fields)) form.set(name, String(value));
    for (const [index, picture] of pictures.entries()) {
      // The pictures are appended one after the other, because their order is significant.
      const file = await openAsBlob(picture.path, { type: `image/${picture.format}` });
      form.append('image[]', file, `image-${index}.${picture.format}`);
    }
    if (mask) form.set('mask', await openAsBlob(await writeMask(mask)), 'mask.png');
    return { form, discard };
  } catch (cause) {
    await discard();
    if (cause instanceof ProviderFailure) throw cause;
    // The call was not sent, so the provider certainly did no work and the call may be sent later.
    throw new ProviderFailure('not_accepted', 'the edit form cannot be created now', { cause });
  }
}

async function fetchPicture(
  url: string,
  path: string,
  { outbound, signal }: EditFormOptions,
): Promise<Picture> {
  const limits = { bytesMax: pictureBytesMax, timeoutMs: fetchTimeoutMs, signal };
  try {
    await writeSpoolFile(path, await outbound.fetch(url, limits));
  } catch (error) {
    if (!(error instanceof OutboundError)) throw error;
    throw new ProviderFailure(
      error.isTemporary ? 'not_accepted' : 'rejected',
      `an input picture cannot be read: ${error.message}`,
    );
  }
  const metadata = await sharp(path, { limitInputPixels: pixelsMax })
    .metadata()
    .catch(() => null);
  if (!metadata || !['png', 'jpeg', 'webp', 'gif'].includes(metadata.format)) {
    throw new ProviderFailure('rejected', 'an input picture is not a PNG, JPEG, WebP or GIF image');
  }
  if (metadata.format === 'gif') return convertToPng(path, metadata);
  return { path, format: metadata.format, width: metadata.width, height: metadata.height };
}

/** Converts a GIF, which OpenAI does not accept. */
async function convertToPng(path: string, size: Pick<Picture, 'width' | 'height'>) {
  await sharp(path, { limitInputPixels: pixelsMax }).png().toFile(`${path}.gif.png`);
  return { path: `${path}.gif.png`, format: 'png', width: size.width, height: size.height };
}

/**
 * Converts a mask to the form that OpenAI requires. In the input, white marks the pixels to edit
 * (storage/inputs/call-pictures.ts); for OpenAI, alpha 0 marks them.
 */
async function writeMask({ path: maskPath, width, height }: Picture): Promise<string> {
  const alphaChannel = await sharp(maskPath)
    .greyscale()
    .negate()
    .toColourspace('b-w')
    .raw()
    .toBuffer();
  const path = `${maskPath}.png`;
  await sharp({ create: { width, height, channels: 3, background: '#000' } })
    .joinChannel(alphaChannel, { raw: { width, height, channels: 1 } })
    .png()
    .toFile(path);
  return path;
}

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
  error: z.object({
    code: z.string().nullish(),
    type: z.string().nullish(),
    param: z.string().nullish(),
  }),
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
  const errorType = error?.code ?? error?.type;
  if (error?.code && policyCodes.has(error.code)) {
    return contentPolicyFailure(response, { errorType });
  }
  return toStatusFailure(response, {
    fields: error?.param ? [error.param] : [],
    errorType,
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
