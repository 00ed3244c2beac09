/**
 * Paths of OpenAI's and Anthropic's clients. A client appends an endpoint's path to a base URL that
 * its user sets with or without `/api` and `/v1`, with a second `/v1`, or with a slash at the end.
 * Such a path is handled as the endpoint's own. It is never redirected, because clients repeat a
 * redirected POST as a GET.
 */
import type { ErrorFormat } from '../../domain/error-bodies.ts';
import type { Context, Middleware } from '../context.ts';
import type { Endpoint } from '../endpoints/endpoint.ts';

type SdkEndpoint = Pick<Endpoint, 'path' | 'errorFormat' | 'acceptsXApiKey'>;

const apiPrefix = '/api/v1';
/** Beginning of a path in any spelling of the base URL. */
const basePath = /^\/+(?:api\/+)?(?:v1(?:\/+|$))*/;

/**
 * Creates the middleware that maps every path below `/v1`, and every spelling of a path that an SDK
 * calls, to the path of the endpoint below `/api/v1`. Errors of paths that do not begin with `/api`
 * have the format of the SDK.
 */
export function resolveSdkPaths(endpoints: readonly SdkEndpoint[]): Middleware {
  const patterns = endpoints
    .filter(({ errorFormat, acceptsXApiKey }) => errorFormat !== undefined || acceptsXApiKey)
    .map(({ path }) => toPattern(path));
  return (ctx, next) => {
    const rest = ctx.path
      .replace(basePath, '')
      .replace(/\/{2,}/g, '/')
      .replace(/\/$/, '');
    const path = `${apiPrefix}/${rest}`;
    if (path === ctx.path) return next();
    const isShort = /^\/+v1(?:\/|$)/.test(ctx.path);
    if (!isShort && !patterns.some((pattern) => pattern.test(path))) return next();
    if (!/^\/+api\//.test(ctx.path)) {
      ctx.state.isSdkPath = true;
      ctx.state.errorFormat = findSdkFormat(ctx);
    }
    ctx.path = path;
    return next();
  };
}

/** Converts the path of an endpoint with parameters to an expression that matches its requests. */
function toPattern(path: string): RegExp {
  const segments = path.split('/').map((segment) => {
    if (segment.startsWith('*')) return '.+';
    return segment.startsWith(':') ? '[^/]+' : segment;
  });
  return new RegExp(`^${segments.join('/')}$`);
}

/** Returns the error format of the SDK that sent a request: Anthropic's, or else OpenAI's. */
export function findSdkFormat({ headers, path }: Pick<Context, 'headers' | 'path'>): ErrorFormat {
  const isAnthropic =
    headers['anthropic-version'] !== undefined ||
    headers['x-api-key'] !== undefined ||
    /^messages(?:\/|$)/.test(path.replace(basePath, ''));
  return isAnthropic ? 'anthropic' : 'openai';
}
