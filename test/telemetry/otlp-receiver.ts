/** A small OTLP/HTTP receiver that keeps the spans of the JSON encoding, and the bodies of others. */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

/** A received span; ids are hex. */
export interface ReceivedSpan {
  traceId: string;
  spanId: string;
  parentSpanId?: string;
  name: string;
  kind: number;
  startTimeUnixNano: string;
  endTimeUnixNano: string;
  attributes: Record<string, unknown>;
  links: { traceId: string; spanId: string }[];
  status: { code: number };
  service: string;
  instance: string;
  resource: Record<string, unknown>;
}

/** A listening receiver. */
export interface OtlpReceiver {
  url: string;
  spans: ReceivedSpan[];
  /** Headers of the exports. */
  headers: Record<string, unknown>[];
  /** Bodies of exports in another encoding than JSON, as Latin-1 text. */
  encoded: string[];
  close: () => Promise<void>;
}

interface Attribute {
  key: string;
  value: Record<string, unknown>;
}
interface Export {
  resourceSpans: {
    resource: { attributes: Attribute[] };
    scopeSpans: { spans: (Omit<ReceivedSpan, 'attributes'> & { attributes: Attribute[] })[] }[];
  }[];
}

const plain = (attributes: Attribute[]): Record<string, unknown> =>
  Object.fromEntries(attributes.map(({ key, value }) => [key, valueOf(value)]));

/** The value of `{intValue: 1}` and the like; a list for `{arrayValue: {values: […]}}`. */
function valueOf(value: Record<string, unknown>): unknown {
  const [inner] = Object.values(value);
  const { values } = (inner ?? {}) as { values?: Record<string, unknown>[] };
  return values ? values.map(valueOf) : inner;
}

/** Starts a receiver on a free port. */
export async function startOtlpReceiver(): Promise<OtlpReceiver> {
  const spans: ReceivedSpan[] = [];
  const headers: Record<string, unknown>[] = [];
  const encoded: string[] = [];
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      headers.push(request.headers);
      if (request.headers['content-type'] !== 'application/json') {
        encoded.push(Buffer.concat(chunks).toString('latin1'));
        response.writeHead(200).end();
        return;
      }
      const sent = JSON.parse(Buffer.concat(chunks).toString('utf8')) as Export;
      for (const { resource, scopeSpans } of sent.resourceSpans) {
        const about = plain(resource.attributes);
        for (const span of scopeSpans.flatMap((scope) => scope.spans)) {
          spans.push({
            ...span,
            attributes: plain(span.attributes),
            resource: about,
            service: String(about['service.name']),
            instance: String(about['service.instance.id']),
          });
        }
      }
      response.writeHead(200, { 'content-type': 'application/json' }).end('{}');
    });
  });
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    spans,
    headers,
    encoded,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
