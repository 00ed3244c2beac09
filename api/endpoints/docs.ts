/**
 * Endpoints that serve the API's documentation: OpenAPI as JSON and YAML, a reference page, and
 * llms.txt.
 */
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { Worker } from 'node:worker_threads';
import { z } from 'zod';
import { GatewayError } from '../../domain/errors.ts';
import { publicBaseUrl } from '../../process/services.ts';
import type { Composition } from '../composition.ts';
import { constantAnswers, describeConstant } from '../http/constants.ts';
import type { Descriptions, DescriptionValues } from '../openapi/document.ts';
import { defineEndpoint, rawResponse, defineSection } from './endpoint.ts';
import { listPriceLines } from './pricing.ts';

const assets: Record<string, string> = {
  'swagger-ui.css': 'text/css',
  'swagger-ui-bundle.js': 'text/javascript',
  'favicon-32x32.png': 'image/png',
};
const assetDirectory = dirname(
  createRequire(import.meta.url).resolve('swagger-ui-dist/package.json'),
);

const referencePage = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Studio Gateway: API reference</title>
<link rel="stylesheet" href="/docs/swagger-ui.css">
<link rel="icon" href="/docs/favicon-32x32.png">
</head>
<body>
<div id="reference"></div>
<script src="/docs/swagger-ui-bundle.js"></script>
<script src="/docs/start.js"></script>
</body>
</html>`;

const startScript = `SwaggerUIBundle({
  url: '/api/v1/openapi.json',
  dom_id: '#reference',
  deepLinking: true,
  tryItOutEnabled: true,
  defaultModelsExpandDepth: 0,
});`;

/** Descriptions of each API in this process. The thread creates all of them at the first request for one. */
const descriptions = new WeakMap<Composition, Promise<Descriptions>>();

/** Returns a description of the API. A thread creates it, which loads the endpoints again. */
async function describeApi(kind: keyof Descriptions, services: Composition): Promise<string> {
  const created = descriptions.get(services) ?? createDescriptions(services);
  descriptions.set(services, created);
  created.catch(() => descriptions.delete(services));
  return (await created)[kind];
}

async function createDescriptions({
  config,
  listPrices,
  priceBook,
}: Composition): Promise<Descriptions> {
  const workerData: DescriptionValues = {
    baseUrl: publicBaseUrl(config),
    prices: listPriceLines(listPrices(await priceBook.at(null))),
  };
  const thread = new Worker(new URL('../openapi/description-thread.ts', import.meta.url), {
    workerData,
  });
  const [created]: Descriptions[] = await once(thread, 'message');
  if (!created) throw new Error('the thread sent no descriptions');
  return created;
}

const defineText = (
  path: `/${string}`,
  type: string,
  getContent: (services: Composition) => string | Promise<string>,
) =>
  defineEndpoint({
    route: `GET ${path}`,
    scope: 'open',
    response: rawResponse,
    responses: constantAnswers,
    handle: ({ ctx }, services) =>
      services.constants.send(ctx, { name: path, type }, () => getContent(services)),
  });

/** Endpoints that serve the documentation of the callers' API. */
export const docs = [
  defineEndpoint({
    route: 'GET /api/v1/openapi.json',
    scope: 'open',
    // Programs that generate clients know 3.0 best (clients/README.md).
    request: { query: z.object({ version: z.enum(['3.0', '3.1']).default('3.1') }) },
    response: rawResponse,
    responses: constantAnswers,
    handle: ({ ctx, query: { version } }, services) =>
      services.constants.send(
        ctx,
        { name: `${ctx.path} ${version}`, type: 'application/json' },
        () => describeApi(version === '3.0' ? 'generators' : 'callers', services),
      ),
  }),
  defineText('/api/v1/openapi.yaml', 'application/yaml', (services) =>
    describeApi('yaml', services),
  ),
  defineText('/llms.txt', 'text/plain', (services) => describeApi('llms', services)),
  defineText('/docs', 'text/html', () => referencePage),
  defineText('/docs/start.js', 'text/javascript', () => startScript),

  defineEndpoint({
    route: 'GET /docs/:asset',
    scope: 'open',
    request: { params: z.object({ asset: z.string() }) },
    response: rawResponse,
    responses: constantAnswers,
    async handle({ ctx, params: { asset } }, { constants }) {
      const type = Object.hasOwn(assets, asset) ? assets[asset] : undefined;
      if (type === undefined) throw new GatewayError('NOT_FOUND');
      await constants.send(ctx, { name: `/docs/${asset}`, type }, () =>
        readFile(join(assetDirectory, asset)),
      );
      ctx.set('Cache-Control', 'public, max-age=86400');
    },
  }),
];

/** Endpoint that serves the OpenAPI description of the operators' API. */
export const operatorsDocs = defineSection('Description', {
  getDescription: defineEndpoint({
    route: 'GET /api/admin/v1/openapi.json',
    summary: 'Get the OpenAPI description of the operators’ API',
    response: rawResponse,
    responses: describeConstant(z.looseObject({ openapi: z.literal('3.1.0') })),
    handle: ({ ctx }, services) =>
      services.constants.send(ctx, { name: ctx.path, type: 'application/json' }, () =>
        describeApi('operators', services),
      ),
  }),
});
