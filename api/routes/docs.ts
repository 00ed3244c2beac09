/** The API described: OpenAPI as JSON and YAML, a reference page that works offline, llms.txt. No key needed. */
import { readFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import type Router from '@koa/router';
import { GatewayError } from '../../domain/errors.ts';
import type { RequestState } from '../context.ts';
import { buildDocument, operations, type OpenApiDocument } from '../openapi/document.ts';

const assets: Record<string, string> = {
  'swagger-ui.css': 'text/css',
  'swagger-ui-bundle.js': 'text/javascript',
  'favicon-32x32.png': 'image/png',
};
const assetDirectory = dirname(
  createRequire(import.meta.url).resolve('swagger-ui-dist/package.json'),
);

const page = `<!doctype html>
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
  persistAuthorization: true,
  tryItOutEnabled: true,
  defaultModelsExpandDepth: 0,
});`;

/** Adds the routes; the document is made when it is first asked for. */
export function addDocsRoutes(router: Router<RequestState>, baseUrl: string): void {
  let document: OpenApiDocument | undefined;
  const described = (): OpenApiDocument => (document ??= buildDocument(baseUrl));

  router.get('/api/v1/openapi.json', (ctx) => {
    ctx.type = 'application/json';
    ctx.body = described().json;
  });
  router.get('/api/v1/openapi.yaml', (ctx) => {
    ctx.type = 'application/yaml';
    ctx.body = described().yaml;
  });
  router.get('/llms.txt', (ctx) => {
    ctx.type = 'text/plain';
    ctx.body = summaryForModels(baseUrl);
  });
  router.get('/docs', (ctx) => {
    ctx.type = 'text/html';
    ctx.body = page;
  });
  router.get('/docs/start.js', (ctx) => {
    ctx.type = 'text/javascript';
    ctx.body = startScript;
  });
  router.get('/docs/:asset', async (ctx) => {
    const asset = ctx.params['asset'] ?? '';
    const type = Object.hasOwn(assets, asset) ? assets[asset] : undefined;
    if (type === undefined) throw new GatewayError('NOT_FOUND');
    ctx.type = type;
    ctx.set('Cache-Control', 'public, max-age=86400');
    ctx.body = await readFile(join(assetDirectory, asset));
  });
}

/** What a language model needs to call the API (llmstxt.org). */
function summaryForModels(baseUrl: string): string {
  const lines = operations.map(
    ({ method, path, summary }) => `- ${method.toUpperCase()} ${path}: ${summary}`,
  );
  return [
    '# Studio Gateway',
    '',
    '> One API for chat and Studio work (image, video, voice, music, sound effects, transcription).',
    '',
    `Base URL ${baseUrl}. Send \`Authorization: Bearer <API key>\`. Bodies are JSON. Studio answers are`,
    '`{success, data, credits}`, or 202 with `data.statusUrl` to poll until `data.done` is true.',
    `Full description: ${baseUrl}/api/v1/openapi.json`,
    '',
    '## Operations',
    '',
    ...lines,
    '',
  ].join('\n');
}
