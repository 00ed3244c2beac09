/** /console: serves the built console from console/dist. `/` redirects browsers to /console. */
import { readFile } from 'node:fs/promises';
import { extname, join } from 'node:path';
import { z } from 'zod';
import { publicBaseUrl } from '../../activities/services.ts';
import { GatewayError } from '../../domain/errors.ts';
import type { Config } from '../../platform/config.ts';
import type { Context } from '../context.ts';
import { defineEndpoint, rawResponse } from './endpoint.ts';

const buildDirectory = join(import.meta.dirname, '../../console/dist');

const assetTypes: Record<string, string> = {
  '.js': 'text/javascript',
  '.css': 'text/css',
  '.svg': 'image/svg+xml',
};

const listLinks = (base: string) => ({
  console: `${base}/console`,
  reference: `${base}/docs`,
  openapi: `${base}/api/v1/openapi.json`,
  summary: `${base}/llms.txt`,
});

/**
 * Returns the Content-Security-Policy of the console pages. It forbids inline code, and allows
 * media from the file store.
 */
function buildContentSecurityPolicy(config: Config): string {
  const stores = [publicBaseUrl(config), config.S3_PUBLIC_BASE_URL ?? config.S3_ENDPOINT];
  const origins = [
    "'self'",
    ...stores.flatMap((url) => (url === undefined ? [] : [new URL(url).origin])),
  ];
  const allowedOrigins = origins.join(' ');
  return [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "font-src 'self'",
    `connect-src ${allowedOrigins}`,
    `img-src ${allowedOrigins} data: blob:`,
    `media-src ${allowedOrigins} blob:`,
    "base-uri 'none'",
    "form-action 'self'",
    "frame-ancestors 'none'",
  ].join('; ');
}

/** File name suffixes of the compressed build files, by encoding. */
const encodingSuffixes = { br: '.br', gzip: '.gz' };

/**
 * Sends a build file in the best encoding that the client accepts.
 * @throws GatewayError NOT_FOUND
 */
async function sendFile(ctx: Context, name: string, type: string): Promise<void> {
  const encoding = ctx.acceptsEncodings('br', 'gzip', 'identity');
  const isCompressed = encoding === 'br' || encoding === 'gzip';
  try {
    ctx.body = await readFile(
      join(buildDirectory, name + (isCompressed ? encodingSuffixes[encoding] : '')),
    );
    ctx.type = type;
    ctx.vary('Accept-Encoding');
    if (isCompressed) ctx.set('Content-Encoding', encoding);
  } catch (error) {
    const message =
      name === 'index.html'
        ? 'The console has not been built. Run: npm run dev -- console-build'
        : undefined;
    throw new GatewayError('NOT_FOUND', message, { cause: error });
  }
}

const definePage = (path: `/${string}`) =>
  defineEndpoint({
    route: `GET ${path}`,
    scope: 'open',
    answer: rawResponse,
    async handle({ ctx }, { config }) {
      await sendFile(ctx, 'index.html', 'html');
      ctx.set('Content-Security-Policy', buildContentSecurityPolicy(config));
      // The page links to the scripts of one build, so browsers must revalidate a cached copy.
      ctx.set('Cache-Control', 'no-cache');
    },
  });

/** Endpoints that serve the console. */
export const consolePages = [
  defineEndpoint({
    route: 'GET /',
    scope: 'open',
    answer: rawResponse,
    answers: {
      200: 'Links to the console and to the API documentation.',
      302: 'Redirects browsers to the console.',
    },
    handle({ ctx }, { config }) {
      ctx.vary('Accept');
      if (ctx.accepts('json', 'html') === 'html') ctx.redirect('/console');
      else ctx.body = listLinks(publicBaseUrl(config));
    },
  }),
  definePage('/console'),
  defineEndpoint({
    route: 'GET /console/assets/:name',
    scope: 'open',
    request: { params: z.object({ name: z.string().regex(/^[\w.-]+$/) }) },
    answer: rawResponse,
    async handle({ ctx, params: { name } }) {
      const type = assetTypes[extname(name)];
      if (type === undefined) throw new GatewayError('NOT_FOUND');
      await sendFile(ctx, join('assets', name), type);
      ctx.set('Cache-Control', 'public, max-age=31536000, immutable');
    },
  }),
  // Every URL below /console returns the same page, which selects its view by the URL.
  definePage('/console/*page'),
];
