/** /console: serves the built console from clients/console/dist. `/` redirects browsers to /console. */
import { readFile } from 'node:fs/promises';
import { extname, join } from 'node:path';
import { z } from 'zod';
import { publicBaseUrl } from '../../process/services.ts';
import { assert, GatewayError } from '../../domain/errors.ts';
import type { Config } from '../../platform/config.ts';
import { constantAnswers, type ConstantBodies } from '../http/constants.ts';
import { defineEndpoint, rawResponse } from './endpoint.ts';

const buildDirectory = join(import.meta.dirname, '../../clients/console/dist');

const assetTypes: Record<string, string> = {
  '.js': 'text/javascript',
  '.css': 'text/css',
  '.svg': 'image/svg+xml',
  '.webp': 'image/webp',
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

/**
 * Reads a build file and its compressed forms, which the build has made.
 * @throws GatewayError NOT_FOUND
 */
async function readBuildFile(name: string): Promise<ConstantBodies> {
  const path = join(buildDirectory, name);
  try {
    const [identity, br, gzip] = await Promise.all(
      ['', '.br', '.gz'].map((suffix) => readFile(path + suffix)),
    );
    assert(identity && br && gzip, 'a build file was not read');
    return new Map([
      ['identity', identity],
      ['br', br],
      ['gzip', gzip],
    ]);
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
    response: rawResponse,
    responses: constantAnswers,
    async handle({ ctx }, { config, constants }) {
      const page = { name: 'console', type: 'html' };
      await constants.send(ctx, page, () => readBuildFile('index.html'));
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
    response: rawResponse,
    responses: {
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
    response: rawResponse,
    responses: constantAnswers,
    async handle({ ctx, params: { name } }, { constants }) {
      const type = assetTypes[extname(name)];
      if (type === undefined) throw new GatewayError('NOT_FOUND');
      await constants.send(ctx, { name: `console ${name}`, type }, () =>
        readBuildFile(join('assets', name)),
      );
      ctx.set('Cache-Control', 'public, max-age=31536000, immutable');
    },
  }),
  // Every URL below /console returns the same page, which selects its view by the URL.
  definePage('/console/*page'),
];
