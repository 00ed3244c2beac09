/** POST /mcp: the Studio as tools of the Model Context Protocol (docs/mcp.md). */
import { WebStandardStreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/webStandardStreamableHttp.js';
import { ownApiOf } from '../mcp/tools.ts';
import { createMcpServer } from '../mcp/server.ts';
import { readJson } from '../http/body.ts';
import { defineOperation, ownAnswer } from './operation.ts';

/** Beyond this a silent stream carries a comment. */
const keepAliveMs = 10_000;

/** Has no name: its protocol describes it, not OpenAPI. */
export const mcp = defineOperation({
  route: 'POST /mcp',
  scope: 'studio:read',
  bucket: 'polls',
  answer: ownAnswer,
  answers: { 200: 'The answer, as events.', 202: 'Heard.', 400: 'No message.', 406: 'No events.' },
  errors: ['INVALID_REQUEST', 'PAYLOAD_TOO_LARGE', 'UNSUPPORTED_MEDIA_TYPE', 'REQUEST_TIMEOUT'],
  async handle({ ctx, caller }, services) {
    // One message: a batch would be many requests in one.
    const parsedBody = await readJson(ctx);
    const server = createMcpServer({ caller, services, api: ownApiOf(ctx.req) });
    const transport = new WebStandardStreamableHTTPServerTransport({ keepAliveMs });
    await server.connect(transport);
    // Whoever goes away stops the telling, never the job.
    ctx.res.once('close', () => void server.close());
    const headers = Object.entries(ctx.req.headersDistinct).flatMap(([name, values = []]) =>
      values.map((value): [string, string] => [name, value]),
    );
    const request = new Request('http://mcp.invalid/mcp', { method: 'POST', headers });
    ctx.body = await transport.handleRequest(request, { parsedBody });
  },
});
