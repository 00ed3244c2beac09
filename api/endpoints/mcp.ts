/** POST /mcp: offers Studio endpoints as tools of the Model Context Protocol (docs/mcp.md). */
import { WebStandardStreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/webStandardStreamableHttp.js';
import { GatewayError } from '../../domain/errors.ts';
import type { Config } from '../../platform/config.ts';
import { publicBaseUrl } from '../../process/services.ts';
import type { Context } from '../context.ts';
import { createOwnApiClient, createMcpServer } from '../mcp/mcp-server.ts';
import { isAllowedOrigin } from '../middleware/cors.ts';
import { closedSignal } from '../middleware/request-shares.ts';
import { readJson } from '../http/json-body.ts';
import { parseEndUser } from '../http/request-headers.ts';
import { unbuffered } from '../http/kept-answer.ts';
import { dataUrlBodyBytesMax } from './studio-body.ts';
import { defineEndpoint, rawResponse } from './endpoint.ts';

/**
 * Maximum idle time of a stream in milliseconds. After this time the server sends a comment, which
 * keeps the connection open.
 */
const keepAliveMs = 10_000;

/**
 * Rejects pages of foreign origins, as the protocol requires against DNS rebinding. Programs send no
 * `Origin`.
 * @throws GatewayError FORBIDDEN
 */
function checkOrigin(ctx: Context, config: Config): void {
  const origin = ctx.get('origin');
  const isOwn = origin === '' || origin === new URL(publicBaseUrl(config)).origin;
  if (isOwn || isAllowedOrigin(config.CORS_ORIGINS, origin)) return;
  throw new GatewayError('FORBIDDEN', `Origin ${origin} is not one of those in CORS_ORIGINS.`);
}

/** MCP endpoint. It has no id, because it is not part of the OpenAPI description. */
export const mcp = defineEndpoint({
  route: 'POST /mcp',
  scope: 'studio:read',
  bucket: 'polls',
  response: rawResponse,
  responses: {
    200: 'The response as server-sent events, or as JSON if the client does not name them in `Accept`.',
    202: 'The MCP notification was accepted.',
    400: 'The body is not an MCP message.',
    406: 'The client accepts neither JSON nor server-sent events.',
  },
  errors: ['INVALID_REQUEST', 'PAYLOAD_TOO_LARGE', 'UNSUPPORTED_MEDIA_TYPE', 'REQUEST_TIMEOUT'],
  async handle({ ctx, caller }, services) {
    checkOrigin(ctx, services.config);
    // The header is sent on with the requests of the tools.
    parseEndUser(ctx);
    // The transport rejects a batch of messages: the rate limit would count it as one request.
    const parsedBody = await readJson(ctx, { bytesMax: dataUrlBodyBytesMax });
    const sendRequest = createOwnApiClient(ctx.req, closedSignal(ctx));
    const server = createMcpServer({ caller, services, sendRequest });
    const acceptedTypes = ctx.get('accept');
    // Clients of the protocol accept both types by name. Others expect JSON.
    const transport = new WebStandardStreamableHTTPServerTransport({
      keepAliveMs,
      enableJsonResponse: !acceptedTypes.includes('text/event-stream'),
    });
    await server.connect(transport);
    // If the client disconnects, the progress events end, but the job continues.
    ctx.res.once('close', () => void server.close());
    const headers = Object.entries(ctx.req.headersDistinct).flatMap(([name, values = []]) =>
      values.map((value): [string, string] => [name, value]),
    );
    // The transport requires both types, although it sends one.
    const isAccepted = ctx.accepts('application/json', 'text/event-stream') !== false;
    if (isAccepted) headers.push(['accept', 'application/json, text/event-stream']);
    const request = new Request('http://mcp.invalid/mcp', { method: 'POST', headers });
    const response = await transport.handleRequest(request, { parsedBody });
    // The transport sets keep-alive also for a client that closes its connection.
    response.headers.delete('connection');
    ctx.body = response;
    ctx.set(unbuffered);
  },
});
