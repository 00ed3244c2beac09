/** Generates the results of accepted requests once their latency has passed, a few at a time. */
import { findFault, type FaultBook } from '../faults.ts';
import { MediaInputError, deriveSeed } from '../media/media.ts';
import type { FalFile, Generated, GenerationContext } from './endpoint.ts';
import { endpoints } from './endpoints/registry.ts';
import type { FileCdn } from './files.ts';
import {
  modelFailure,
  ModelError,
  platformFailure,
  policyFailure,
  type Outcome,
} from './outcome.ts';
import type { FalRequest, RequestStore } from './requests.ts';
import type { WebhookSender } from './webhooks.ts';

/** Maximum number of concurrent generations; the rest of the CPU is for the tests. */
const concurrencyMax = 3;
/** Time in the queue, as a share of the latency, and its maximum in milliseconds. */
const queueShare = 0.2;
const queueMsMax = 500;

/** Calculates how long a request stays IN_QUEUE, in milliseconds. */
export function queueMs({ latencyMs }: FalRequest): number {
  return Math.min(queueMsMax, latencyMs * queueShare);
}

/** Returns a function that runs at most `concurrencyMax` functions at a time, in order. */
function createLimit() {
  let running = 0;
  const waiting: (() => void)[] = [];
  return async <T>(work: () => Promise<T>): Promise<T> => {
    if (running >= concurrencyMax) {
      const { promise, resolve } = Promise.withResolvers<void>();
      waiting.push(resolve);
      await promise;
    } else {
      running += 1;
    }
    try {
      return await work();
    } finally {
      const next = waiting.shift();
      if (next) next();
      else running -= 1;
    }
  };
}

/** Returns a function that generates a request's media. It is deterministic, so that files can be generated again. */
export function createGenerate(generators: Omit<GenerationContext, 'requestSeed' | 'faults'>) {
  return async (request: FalRequest): Promise<Generated> => {
    const endpoint = endpoints.get(request.endpointId);
    if (!endpoint) throw new ModelError(404, [{ loc: [], msg: 'Not found', type: 'not_found' }]);
    const { faults, requestId } = request;
    const context = { requestSeed: deriveSeed(requestId), faults, ...generators };
    const generated = await endpoint.generate(request.body, context);
    const partial = findFault(faults, 'partial');
    if (!partial) return generated;
    return { ...generated, media: generated.media.slice(0, Number(partial.argument || 1)) };
  };
}

function toFailure(error: unknown): Outcome {
  if (error instanceof ModelError) return modelFailure(error);
  if (error instanceof MediaInputError) {
    const medium = error.field.startsWith('video') ? 'video' : 'image';
    const type = {
      download: 'file_download_error',
      decode: `${medium}_load_error`,
      too_large: `${medium}_too_large`,
    }[error.kind];
    const loc = ['body', error.field];
    return modelFailure(
      new ModelError(422, [{ loc, msg: error.message, type, input: error.url.slice(0, 500) }]),
    );
  }
  process.stderr.write(`sandbox: ${error instanceof Error ? error.stack : String(error)}\n`);
  return platformFailure(500);
}

/** Returns the failure that the request's faults cause, if any. */
function findFaultOutcome({ faults }: FalRequest): Outcome | undefined {
  if (findFault(faults, 'policy')) return policyFailure();
  const platform = findFault(faults, 'fail-result');
  if (platform) return platformFailure(Number(platform.argument || 500));
  const model = findFault(faults, 'fail');
  if (!model) return undefined;
  const status = Number(model.argument || 422);
  const type = model.options['type'] ?? (status >= 500 ? 'internal_server_error' : 'value_error');
  return modelFailure(new ModelError(status, [{ loc: ['body'], msg: 'Generation failed', type }]));
}

interface GeneratorOptions {
  store: RequestStore;
  faults: FaultBook;
  cdn: FileCdn;
  webhooks: WebhookSender;
  generate: (request: FalRequest) => Promise<Generated>;
}

/** Creates the generator. */
export function createGenerator({ store, faults, cdn, webhooks, generate }: GeneratorOptions) {
  const closing = new AbortController();
  const limit = createLimit();

  const waitUntil = async (timeMs: number, { acceptedAtMs }: FalRequest) => {
    const delayMs = timeMs - Date.now();
    if (delayMs > 0) await faults.wait(delayMs, acceptedAtMs, closing.signal);
  };

  const generateOutcome = async (request: FalRequest): Promise<Outcome> => {
    try {
      const { media, output } = await generate(request);
      const files: FalFile[] = cdn.publish(request, media);
      const units = String(media.length);
      return { status: 200, body: output(files), headers: { 'x-fal-billable-units': units } };
    } catch (error) {
      return toFailure(error);
    }
  };

  const report = (error: unknown) => {
    if (closing.signal.aborted) return;
    process.stderr.write(`sandbox: ${error instanceof Error ? error.stack : String(error)}\n`);
  };

  const run = async (request: FalRequest) => {
    try {
      await waitUntil(request.acceptedAtMs + queueMs(request), request);
      if (request.outcome) return;
      request.startedAtMs = Date.now();
      const outcome =
        findFaultOutcome(request) ?? (await limit(async () => generateOutcome(request)));
      await waitUntil(request.acceptedAtMs + request.latencyMs, request);
      if (closing.signal.aborted) return;
      if (await store.finish(request, outcome)) await webhooks.notify(request);
    } catch (error) {
      report(error);
    }
  };

  const notify = (request: FalRequest) => {
    webhooks.notify(request).catch(report);
  };

  return {
    /**
     * Generates the result after the request's latency, ends the request and sends its webhook. Logs errors instead of
     * throwing them.
     */
    run,
    /** Sends the webhook of a request that ended without `run`, for example because it was canceled. */
    notify,
    /** Resumes the unfinished requests in the log. */
    resume: (): void => {
      for (const request of store.all()) {
        if (!request.outcome) void run(request);
        else if (!request.notified) notify(request);
      }
    },
    /** Stops all work; the next start of the sandbox resumes it. */
    close: (): void => closing.abort(),
  };
}

export type Generator = ReturnType<typeof createGenerator>;
