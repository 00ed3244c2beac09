/** One HTTP exchange with a chat upstream, by undici's dispatch: streams and abort signals cost more than the rest. */
import type { Dispatcher, Pool } from 'undici';
import { upstreamUnreached } from './upstream-failures.ts';

/** Where a chat says that nobody waits for its exchange any more. */
export class Cancellation {
  #canceled = false;
  #cancel: (() => void) | null = null;

  /** Ends the exchange, the running one or the one to come. */
  cancel(): void {
    this.#canceled = true;
    this.#cancel?.();
  }

  /** Says how the exchange is ended; that happens at once when nobody waits for it already. */
  onCancel(cancel: () => void): void {
    this.#cancel = cancel;
    if (this.#canceled) cancel();
  }
}

/** An exchange to be made. */
export interface UpstreamExchange {
  pool: Pool;
  options: Dispatcher.DispatchOptions;
  cancellation: Cancellation;
}

/** The head of an answer. */
interface AnswerHead {
  status: number;
  /** As it came. */
  retryAfter: string | string[] | undefined;
}

/** The body of an answer, packet by packet. */
export interface Packets {
  /** What has come by now, or comes next; null after the last. Rejects where the answer breaks off. */
  read: () => Promise<Buffer | null>;
}

type Controller = Dispatcher.DispatchController;

/** What is read ahead of a slow reader. */
const aheadBytesMax = 64 * 1024;

/**
 * Asks, and reads the whole answer.
 * @throws GatewayError when there is none, or it breaks off
 */
export async function exchangeWhole(
  exchange: UpstreamExchange,
): Promise<AnswerHead & { text: string }> {
  try {
    return await new Promise((resolve, reject) => {
      const chunks: Buffer[] = [];
      let head: AnswerHead = { status: 0, retryAfter: undefined };
      const onRequestStart = cancelable(exchange.cancellation, reject);
      exchange.pool.dispatch(exchange.options, {
        onRequestStart,
        onResponseStart(_controller, status, headers) {
          head = { status, retryAfter: headers['retry-after'] };
        },
        onResponseData: (_controller, chunk) => void chunks.push(chunk),
        onResponseEnd: () => resolve({ ...head, text: Buffer.concat(chunks).toString('utf8') }),
        onResponseError: (_controller, error) => reject(error),
      });
    });
  } catch (error) {
    throw upstreamUnreached(error);
  }
}

/**
 * Asks, and resolves with the head of the answer; its body is read as it comes.
 * @throws GatewayError when there is no answer
 */
export async function exchangeStream(
  exchange: UpstreamExchange,
): Promise<AnswerHead & { packets: Packets }> {
  try {
    return await new Promise((resolve, reject) => {
      const packets = new PacketQueue();
      const onRequestStart = cancelable(exchange.cancellation, reject);
      exchange.pool.dispatch(exchange.options, {
        onRequestStart,
        onResponseStart(_controller, status, headers) {
          // 1xx is not the answer yet.
          if (status >= 200) resolve({ status, retryAfter: headers['retry-after'], packets });
        },
        onResponseData: (controller, chunk) => packets.push(chunk, controller),
        onResponseEnd: () => packets.end(null),
        onResponseError(_controller, error) {
          reject(error);
          packets.end(error);
        },
      });
    });
  } catch (error) {
    throw upstreamUnreached(error);
  }
}

/** Ends the exchange when it is canceled, whether or not it has a connection by then. */
function cancelable(
  cancellation: Cancellation,
  reject: (reason: Error) => void,
): (controller: Controller) => void {
  let started: Controller | null = null;
  let reason: Error | null = null;
  cancellation.onCancel(() => {
    reason = new Error('nobody waits for the answer');
    started?.abort(reason);
    reject(reason);
  });
  return (controller) => {
    started = controller;
    if (reason) controller.abort(reason);
  };
}

/** Packets between a connection, which is paused when they pile up, and one reader. */
class PacketQueue implements Packets {
  #waiting: Buffer[] = [];
  #bytes = 0;
  #paused: Controller | null = null;
  #reader: PromiseWithResolvers<Buffer | null> | null = null;
  #ended = false;
  #failure: Error | null = null;

  push(packet: Buffer, controller: Controller): void {
    if (this.#reader) {
      this.#reader.resolve(packet);
      this.#reader = null;
      return;
    }
    this.#waiting.push(packet);
    this.#bytes += packet.length;
    if (this.#bytes < aheadBytesMax) return;
    controller.pause();
    this.#paused = controller;
  }

  end(failure: Error | null): void {
    this.#ended = true;
    this.#failure = failure;
    if (failure) this.#reader?.reject(failure);
    else this.#reader?.resolve(null);
    this.#reader = null;
  }

  read(): Promise<Buffer | null> {
    if (this.#waiting.length > 0) return Promise.resolve(this.#takeAll());
    if (this.#failure) return Promise.reject(this.#failure);
    if (this.#ended) return Promise.resolve(null);
    this.#reader = Promise.withResolvers();
    return this.#reader.promise;
  }

  #takeAll(): Buffer {
    const packets = Buffer.concat(this.#waiting);
    this.#waiting = [];
    this.#bytes = 0;
    const paused = this.#paused;
    this.#paused = null;
    paused?.resume();
    return packets;
  }
}
