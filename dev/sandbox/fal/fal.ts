/** fal provider of the sandbox: queue, file server and JWKS, served under `/fal`. */
import { join } from 'node:path';
import type { Counters } from '../counters.ts';
import type { FaultBook } from '../faults.ts';
import { sendJson, type Route } from '../http.ts';
import { createFilms } from '../media/film.ts';
import type { MediaSize } from '../media/media.ts';
import { createPictures } from '../media/pictures.ts';
import { createTones } from '../media/tones.ts';
import { createFileCdn } from './files.ts';
import { createGenerate, createGenerator } from './generation.ts';
import { queueRoutes } from './queue.ts';
import { RequestStore } from './requests.ts';
import { loadSigningKey } from './signing-key.ts';
import { createWebhookSender } from './webhooks.ts';

interface FalOptions {
  dataDir: string;
  apiKey: string;
  latencyMs: number;
  mediaSize: MediaSize;
  fsync: boolean;
  faults: FaultBook;
  counters: Counters;
  /** Returns the sandbox's base URL, which is known once it listens. */
  baseUrl: () => string;
}

/** Loads fal's state and creates its routes. Call `generator.resume()` once the base URL is known. */
export async function createFal(options: FalOptions) {
  const { dataDir, fsync, counters, baseUrl, mediaSize } = options;
  const store = await RequestStore.open({ dataDir, fsync });
  const key = loadSigningKey(join(dataDir, 'fal-webhook-key.pem'));
  const webhooks = createWebhookSender({ store, key, counters });
  const generate = createGenerate({
    pictures: createPictures(mediaSize),
    films: createFilms(createTones(mediaSize), mediaSize),
  });
  const cdn = createFileCdn({ store, generate, filesUrl: () => `${baseUrl()}/fal/files` });
  const generator = createGenerator({ store, faults: options.faults, cdn, webhooks, generate });
  const queueUrl = () => `${baseUrl()}/fal/queue`;
  const routes: Route[] = [
    ...queueRoutes('/fal/queue', { ...options, store, generator, queueUrl }),
    [
      'GET',
      /^\/fal\/files\/(?<requestId>[0-9a-f-]{36})-(?<index>\d+)\/(?<name>[^/]+)$/,
      async (exchange) => {
        counters.fileFetches += 1;
        await cdn.serve(exchange);
      },
    ],
    [
      'GET',
      /^\/fal\/\.well-known\/jwks\.json$/,
      (exchange) => sendJson(exchange, { status: 200, body: key.jwks }),
    ],
  ];
  const close = async () => {
    generator.close();
    await webhooks.close();
    await store.close();
  };
  return { routes, store, webhooks, generator, close };
}

/** Loaded fal provider. */
export type Fal = Awaited<ReturnType<typeof createFal>>;
