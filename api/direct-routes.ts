/** Routes in front of Koa: the same middleware in the same order, on an `Exchange` instead of a context. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { RequestContext, RequestState } from './context.ts';
import type { Caller } from './identity/access.ts';
import { Exchange, type HeaderList } from './exchange.ts';
import type { BodyBytes } from './middleware/body-bytes.ts';

/** Middleware that needs no more than a `RequestContext`. */
export type Step = (ctx: RequestContext, next: () => Promise<void>) => Promise<void>;

/** A POST route and what answers it. */
export interface DirectRoute {
  /** The whole path, compared exactly. */
  path: string;
  handle: (exchange: Exchange) => Promise<void>;
}

interface DirectRoutesOptions {
  routes: readonly DirectRoute[];
  /** Goes around all others, and sees the answer sent: what it does after `next` delays no caller. */
  outermost: Step;
  /** In the order of their refusals. */
  steps: readonly Step[];
  /** Headers of every answer. */
  headers: HeaderList;
}

/** Answers requests; false for those that are none of these routes'. */
export type DirectRoutes = (request: IncomingMessage, response: ServerResponse) => boolean;

/** See the file's head. */
export function createDirectRoutes(options: DirectRoutesOptions): DirectRoutes {
  const { outermost, steps, headers } = options;
  const answers = new Map(options.routes.map(({ path, handle }) => [path, chained(steps, handle)]));

  async function run(exchange: Exchange, answer: DirectRoute['handle']): Promise<void> {
    try {
      await outermost(exchange, async () => {
        await answer(exchange);
        exchange.send();
      });
    } catch {
      // Errors have answers (middleware/error-answers.ts); what comes here has broken the answer itself.
      exchange.res.destroy();
    }
  }

  return (req, res) => {
    if (req.method !== 'POST') return false;
    const url = req.url ?? '';
    const query = url.indexOf('?');
    const path = query === -1 ? url : url.slice(0, query);
    const answer = answers.get(path);
    if (!answer) return false;
    void run(new Exchange({ req, res, state: new DirectState(path) }, path, headers), answer);
    return true;
  };
}

/** What the middleware fills in, as it does in Koa's state. */
class DirectState implements RequestState {
  requestId = '';
  caller!: Caller;
  bodyBytes!: BodyBytes;
  readonly route: string;

  constructor(route: string) {
    this.route = route;
  }
}

function chained(steps: readonly Step[], handle: DirectRoute['handle']): DirectRoute['handle'] {
  return steps.reduceRight<DirectRoute['handle']>(
    (next, step) => (exchange) => step(exchange, () => next(exchange)),
    handle,
  );
}
