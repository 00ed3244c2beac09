/** A caller’s server that receives webhooks, and fails as the test configures. */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { expect } from 'vitest';
import { untilHolds } from './until.ts';

/** A received webhook. */
export interface ReceivedWebhook {
  headers: Record<string, string>;
  /** The raw body, over which the signature is computed. */
  text: string;
  body: { type: string; timestamp: string; data: ReceivedJob };
}

interface ReceivedJob {
  jobId: string;
  status: string;
  done: boolean;
  result: { url: string; images: { url: string }[] } | null;
  error: { code: string } | null;
  billing: { state: string; charged: number };
}

type Reply = (response: ServerResponse, count: number) => void;

/** A running receiver. */
export interface WebhookReceiver {
  origin: string;
  /**
   * Returns a separate URL; `reply` responds to the nth webhook there (from 1), with 204 by
   * default.
   */
  at: (path: string, reply?: Reply) => string;
  received: (path: string) => ReceivedWebhook[];
  /** Waits until this many webhooks have arrived at a path, and returns them. */
  untilReceived: (path: string, count?: number) => Promise<ReceivedWebhook[]>;
  /** Stops listening; `up` listens on the same port again. */
  down: () => Promise<void>;
  up: () => Promise<void>;
  /** Returns this receiver with paths below this one. */
  below: (parent: string) => WebhookReceiver;
  close: () => void;
}

/** Starts a receiver on a free port. */
export async function startWebhookReceiver(): Promise<WebhookReceiver> {
  const replies = new Map<string, Reply>();
  const arrived = new Map<string, ReceivedWebhook[]>();

  async function receive(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const path = request.url ?? '';
    const text = (await buffer(request)).toString('utf8');
    const headers = Object.fromEntries(
      Object.entries(request.headers).map(([name, value]) => [name, String(value)]),
    );
    const all = arrived.get(path) ?? [];
    all.push({ headers, text, body: text === '' ? {} : JSON.parse(text) });
    arrived.set(path, all);
    const reply = replies.get(path);
    if (reply) reply(response, all.length);
    else response.writeHead(204).end();
  }

  const server = createServer((request, response) => void receive(request, response));
  const listen = async (port: number): Promise<void> => {
    server.listen(port, '127.0.0.1');
    await once(server, 'listening');
  };
  const close = (): void => {
    server.close();
    server.closeAllConnections();
  };
  await listen(0);
  const { port } = server.address() as AddressInfo;
  const origin = `http://127.0.0.1:${port}`;
  const below = (parent: string): WebhookReceiver => {
    const received = (path: string): ReceivedWebhook[] => arrived.get(parent + path) ?? [];
    return {
      origin,
      at(path, reply) {
        if (reply) replies.set(parent + path, reply);
        return `${origin}${parent}${path}`;
      },
      received,
      async untilReceived(path, count = 1) {
        await untilHolds(() => expect(received(path).length).toBeGreaterThanOrEqual(count));
        return received(path);
      },
      async down() {
        const closed = once(server, 'close');
        close();
        await closed;
      },
      up: () => listen(port),
      below: (path) => below(parent + path),
      close,
    };
  };
  return below('');
}
