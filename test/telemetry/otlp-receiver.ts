/** A small OTLP/HTTP receiver that keeps the spans of the JSON encoding, and the bodies of others. */
import { buffer } from 'node:stream/consumers';
import { startHttpServer } from '../harness/http-server.ts';

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
export type OtlpReceiver = Awaited<ReturnType<typeof startOtlpReceiver>>;

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
  Object.fromEntries(attributes.map(({ key, value }) => [key, readValue(value)]));

/** Returns the value of `{intValue: 1}` and similar objects; a list for `{arrayValue: {values: […]}}`. */
function readValue(value: Record<string, unknown>): unknown {
  const [inner] = Object.values(value);
  const { values } = (inner ?? {}) as { values?: Record<string, unknown>[] };
  return values ? values.map(readValue) : inner;
}

/** Starts a receiver on a free port. */
export async function startOtlpReceiver() {
  const spans: ReceivedSpan[] = [];
  /** Headers of the exports. */
  const headers: Record<string, unknown>[] = [];
  /** Bodies of exports in another encoding than JSON, as Latin-1 text. */
  const encoded: string[] = [];
  const server = await startHttpServer((request, response) => {
    void buffer(request).then((body) => {
      headers.push(request.headers);
      if (request.headers['content-type'] !== 'application/json') {
        encoded.push(body.toString('latin1'));
        return response.writeHead(200).end();
      }
      const sent = JSON.parse(body.toString('utf8')) as Export;
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
      return response.writeHead(200, { 'content-type': 'application/json' }).end('{}');
    });
  });
  return { ...server, spans, headers, encoded };
}
