/** One HTTP exchange with a chat upstream, by undici's dispatch: streams and abort signals cost more than the rest. */
import type { Dispatcher, Pool } from 'undici';
import { createParser } from 'eventsource-parser';
import { upstreamUnreached, upstreamBroke } from './upstream-failures.ts';
import { GatewayError } from '../../domain/errors.ts';
import type { StreamReader, StreamStep } from './protocols/protocol.ts';

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
interface UpstreamExchange {
  pool: Pool;
  options: Dispatcher.DispatchOptions;
  cancellation: Cancellation;
}

/** An answer whose body has not been read. */
interface Answer {
  status: number;
  /** As it came. */
  retryAfter: string | string[] | undefined;
  packets: Packets;
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
 * Asks, and resolves with the head of the answer; its body is read as it comes.
 * @throws GatewayError when there is no answer
 */
export async function exchange({ pool, options, cancellation }: UpstreamExchange): Promise<Answer> {
  try {
    return await new Promise((resolve, reject) => {
      const packets = new PacketQueue();
      const onRequestStart = cancelable(cancellation, reject);
      pool.dispatch(options, {
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

/** No event of an honest upstream is longer. */
const eventLengthMax = 32 * 1024 * 1024;

/** Reads an upstream's event stream: packets → events → the steps that each packet holds. */
export function createStepReader(packets: Packets, reader: StreamReader) {
  const decoder = new TextDecoder();
  let steps: StreamStep[] = [];
  let failure: GatewayError | null = null;
  const parser = createParser({
    maxBufferSize: eventLengthMax,
    onEvent(event) {
      const step = reader.read(event);
      if (step) steps.push(step);
    },
  });

  async function nextPacket(): Promise<Buffer | null> {
    try {
      return await packets.read();
    } catch (error) {
      // What breaks after the last word broke nothing.
      if (reader.complete) return null;
      throw upstreamUnreached(error);
    }
  }

  return {
    /**
     * The steps of the next packet that has any; null when the upstream is through.
     * @throws GatewayError when it breaks off, or makes no sense; what came before has been given then
     */
    async next(): Promise<StreamStep[] | null> {
      while (!failure) {
        // One packet after the other.
        const packet = await nextPacket();
        if (!packet) return null;
        try {
          parser.feed(decoder.decode(packet, { stream: true }));
        } catch (error) {
          failure = error instanceof GatewayError ? error : upstreamBroke(error);
        }
        if (steps.length === 0) continue;
        const found = steps;
        steps = [];
        return found;
      }
      throw failure;
    },
  };
}
