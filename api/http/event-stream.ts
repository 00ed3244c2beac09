/**
 * Event streams (server-sent events) of responses: the headers are sent with the first event,
 * comments keep idle connections open, and a client that does not read is disconnected after a
 * timeout.
 */
import type { ServerResponse } from 'node:http';

/** Media type of an event stream. */
export const eventStreamType = 'text/event-stream; charset=utf-8';

/** Error of a write to a client that has disconnected or does not read. */
export class ReaderGone extends Error {
  override readonly name = 'ReaderGone';
}

export type EventStream = ReturnType<typeof createEventStream>;

interface Options {
  /** Longest wait for a client that does not read, in milliseconds. */
  stallTimeoutMs: number;
  /** Time without an event after which a comment is sent, in milliseconds. */
  keepaliveMs: number;
  /** Sets the status and headers, which are sent with the first event; called once. */
  open: () => void;
}

/** Creates the event stream of a response; the headers are sent with the first event. */
export function createEventStream(response: ServerResponse, options: Options) {
  let opened = false;
  const keepalive = setTimeout(() => {
    // If the client has not read the previous events, no comment is sent, because it would wait
    // behind them.
    if (!response.writableNeedDrain && !response.destroyed) send(': keepalive\n\n');
    keepalive.refresh();
  }, options.keepaliveMs);

  function send(text: string): boolean {
    if (!opened) {
      opened = true;
      options.open();
    }
    return response.write(text);
  }

  async function drained(): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      const settle = (outcome: () => void): void => {
        clearTimeout(timer);
        response.off('drain', onDrain).off('close', onClose);
        outcome();
      };
      const onDrain = (): void => settle(resolve);
      const onClose = (): void => settle(() => reject(new ReaderGone('the reader is gone')));
      const timer = setTimeout(
        () => settle(() => reject(new ReaderGone('the reader does not read'))),
        options.stallTimeoutMs,
      );
      response.once('drain', onDrain).once('close', onClose);
    });
  }

  return {
    /** Whether the headers have been sent; errors after that are sent as events. */
    get opened(): boolean {
      return opened;
    },
    /** Writes a text, and resolves when more can be written. @throws ReaderGone */
    async write(text: string): Promise<void> {
      if (response.destroyed) throw new ReaderGone('the reader is gone');
      keepalive.refresh();
      if (!send(text)) await drained();
    },
    /** Writes the last text and ends the response. */
    end(text: string): void {
      clearTimeout(keepalive);
      if (response.destroyed) return;
      send(text);
      response.end();
      if (response.writableFinished) return;
      // If the client does not read the rest, the socket is closed after the timeout.
      const late = setTimeout(() => response.destroy(), options.stallTimeoutMs);
      response.once('close', () => clearTimeout(late));
    },
    /** Stops the keepalive comments; no headers are sent if no event was written. */
    stop: () => clearTimeout(keepalive),
  };
}
