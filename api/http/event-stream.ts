/**
 * Responses as event streams (server-sent events). The headers are sent with the first text, idle
 * connections are kept open, and a client that does not read is disconnected (connections.ts).
 */
import type { ServerResponse } from 'node:http';
import { PassThrough } from 'node:stream';
import type { Caller } from '../../identity/access.ts';
import type { Feed } from '../../executions/feed.ts';
import type { Context } from '../context.ts';
import { unbuffered } from './kept-answer.ts';

/** Media type of an event stream. */
export const eventStreamType = 'text/event-stream; charset=utf-8';

/** Executions that a caller follows. */
interface Followed<Row> {
  caller: Pick<Caller, 'organizationId' | 'keyId' | 'token'>;
  /** Id of the only execution. Null: all executions of the organization. */
  id: string | null;
  /** Reads the executions that are sent first. */
  listCurrent: () => Promise<readonly Row[]>;
}

/** Responds with the events of a feed. */
export async function respondWithEvents<Row extends { id: string }>(
  ctx: Context,
  { caller: { organizationId, keyId, token }, id, listCurrent }: Followed<Row>,
  feed: Feed<Row>,
): Promise<void> {
  const events = new PassThrough();
  const { sessionId } = ctx.state;
  await feed.follow({ organizationId, keyId, token, sessionId, id, events }, listCurrent);
  ctx.set({ 'Content-Type': 'text/event-stream', ...unbuffered });
  ctx.status = 200;
  ctx.body = events;
}

/** Error that a write throws if the client has disconnected or does not read. */
export class ReaderDisconnected extends Error {
  override readonly name = 'ReaderDisconnected';
}

export type EventStream = ReturnType<typeof createEventStream>;

interface EventStreamOptions {
  /** Idle time after which `keepalive` is sent, in milliseconds. */
  keepaliveMs: number;
  /** Comment or event that keeps the connection open. */
  keepalive: string;
  /** Sets the status and headers; called once, before the first event is sent. */
  open: () => void;
}

/** Creates the event stream of a response. */
export function createEventStream(response: ServerResponse, options: EventStreamOptions) {
  let headersSent = false;
  let heldText = '';
  const keepalive = setTimeout(() => {
    // Nothing is sent while the client has not read the previous events, because it would only
    // be queued after them.
    if (!response.writableNeedDrain && !response.destroyed) send(options.keepalive);
    keepalive.refresh();
  }, options.keepaliveMs);

  function send(text: string): boolean {
    if (!headersSent) {
      headersSent = true;
      options.open();
    }
    const sentText = heldText + text;
    heldText = '';
    return response.write(sentText);
  }

  async function waitForDrain(): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      const onDrain = (): void => {
        response.off('close', onClose);
        resolve();
      };
      const onClose = (): void => {
        response.off('drain', onDrain);
        reject(new ReaderDisconnected('the client has disconnected or does not read the stream'));
      };
      response.once('drain', onDrain).once('close', onClose);
    });
  }

  return {
    /** True once the headers have been sent. Later errors are sent as events. */
    get headersSent(): boolean {
      return headersSent;
    },
    /** Keeps a text back until the next one is sent. An error before that is no event. */
    hold(text: string): void {
      heldText += text;
    },
    /**
     * Writes a string, and resolves when the next one can be written. @throws ReaderDisconnected
     */
    async write(text: string): Promise<void> {
      if (response.destroyed) throw new ReaderDisconnected('the client has disconnected');
      keepalive.refresh();
      if (!send(text)) await waitForDrain();
    },
    /** Writes the last text and ends the response. */
    end(text: string): void {
      clearTimeout(keepalive);
      if (response.destroyed) return;
      send(text);
      response.end();
    },
    /** Stops to keep the connection open. If no event was written, no headers are sent. */
    stop: () => clearTimeout(keepalive),
  };
}
