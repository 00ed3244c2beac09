/**
 * Event stream of a response: the headers are sent with the first event, comments keep silent
 * streams open, and a client that does not read is disconnected after a time limit.
 */
import type { ServerResponse } from 'node:http';

/** Media type of an event stream. */
export const eventStreamType = 'text/event-stream; charset=utf-8';

/** The client has disconnected, or has not read for too long. */
export class ReaderGone extends Error {
  override readonly name = 'ReaderGone';
}

/** Event stream of one response. */
export type EventStream = ReturnType<typeof createEventStream>;

interface Options {
  stallTimeoutMs: number;
  /** Time without events after which a comment is sent, in milliseconds. */
  keepaliveMs: number;
  /** Sets the headers, which are sent with the first event; called once. */
  open: () => void;
}

/** Makes the event stream of a response; it opens with its first event. */
export function createEventStream(response: ServerResponse, options: Options) {
  let opened = false;
  const keepalive = setTimeout(() => {
    // No comment is sent while earlier bytes are unread, because it would wait behind them.
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
    /** True if the headers were sent: from then on, failures are events. */
    get opened(): boolean {
      return opened;
    },
    /**
     * Resolves when more can be written.
     * @throws ReaderGone
     */
    async write(text: string): Promise<void> {
      if (response.destroyed) throw new ReaderGone('the reader is gone');
      keepalive.refresh();
      if (!send(text)) await drained();
    },
    end(text: string): void {
      clearTimeout(keepalive);
      if (response.destroyed) return;
      send(text);
      response.end();
      if (response.writableFinished) return;
      // The socket is destroyed, because a client that does not read would keep it open.
      const late = setTimeout(() => response.destroy(), options.stallTimeoutMs);
      response.once('close', () => clearTimeout(late));
    },
    /** Stops the comments; a stream without events stays unopened. */
    stop: () => clearTimeout(keepalive),
  };
}
