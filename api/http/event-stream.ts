/**
 * The server's side of an event stream: the head goes out with the first event, comments keep silent
 * streams alive, and a reader who takes nothing is waited for only so long.
 */
import type { ServerResponse } from 'node:http';

/** The media type of an event stream. */
export const eventStreamType = 'text/event-stream; charset=utf-8';

/** The reader is gone, or has not read for too long. */
export class ReaderGone extends Error {
  override readonly name = 'ReaderGone';
}

/** Event stream of one response. */
export type EventStream = ReturnType<typeof createEventStream>;

interface Options {
  stallTimeoutMs: number;
  /** A stream that is silent for this long carries a comment. */
  keepaliveMs: number;
  /** Sets the head, which goes out with the first event; called once. */
  open: () => void;
}

/** Makes the event stream of a response; it opens with its first event. */
export function createEventStream(response: ServerResponse, options: Options) {
  let opened = false;
  const keepalive = setTimeout(() => {
    // Behind what is waiting to be read, a comment would only wait as well.
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
    /** Whether the head has left: from then on failures are events. */
    get opened(): boolean {
      return opened;
    },
    /** Ends when more can be written. @throws ReaderGone */
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
      // What a stalled reader never takes must not hold its socket forever.
      const late = setTimeout(() => response.destroy(), options.stallTimeoutMs);
      response.once('close', () => clearTimeout(late));
    },
    /** Stops the keepalive; a stream that has not begun stays unopened. */
    stop: () => clearTimeout(keepalive),
  };
}
