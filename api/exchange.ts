/**
 * A request and its answer without Koa's context, for the routes whose own work costs less than that
 * context does. The middleware that knows Koa's as a `RequestContext` takes this one as well. The head of
 * the answer is written once, from a list: a header at a time costs twice as much.
 */
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import type { RequestContext, RequestState } from './context.ts';

/** Headers in turn: a name, its value. */
export type HeaderList = readonly string[];

/** See the file's head. */
export class Exchange implements RequestContext {
  readonly req: IncomingMessage;
  readonly res: ServerResponse;
  readonly path: string;
  readonly state: RequestState;
  status = 404;
  /** Text, bytes, or what is sent as JSON. */
  body: unknown = undefined;
  readonly #headers: string[];

  /** `headers` go out with every answer. */
  constructor(
    { req, res, state }: Pick<RequestContext, 'req' | 'res' | 'state'>,
    path: string,
    headers: HeaderList,
  ) {
    this.req = req;
    this.res = res;
    this.state = state;
    this.path = path;
    this.#headers = [...headers];
  }

  get method(): string {
    return this.req.method ?? '';
  }

  get headers(): IncomingHttpHeaders {
    return this.req.headers;
  }

  /** Sets a header of the answer, in the place of one with the same spelling. */
  set(name: string, value: string): void {
    const headers = this.#headers;
    for (let index = 0; index < headers.length; index += 2) {
      if (headers[index] !== name) continue;
      headers[index + 1] = value;
      return;
    }
    headers.push(name, value);
  }

  /** Sends the head of an answer that is written to `res` from then on. */
  open(): void {
    this.res.writeHead(this.status, this.#headers);
  }

  /** Sends the answer, unless it was opened before. */
  send(): void {
    const { res, body } = this;
    if (res.headersSent) return;
    if (res.destroyed) return void res.end();
    const content = this.#contentOf(body);
    this.set('Content-Length', String(Buffer.byteLength(content)));
    this.open();
    res.end(content);
  }

  #contentOf(body: unknown): string | Buffer {
    if (typeof body === 'string' || Buffer.isBuffer(body)) return body;
    this.set('Content-Type', 'application/json; charset=utf-8');
    return JSON.stringify(body);
  }
}
