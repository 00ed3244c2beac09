/** Reads an upstream's event stream: packets → events → the steps that each packet holds. */
import { createParser } from 'eventsource-parser';
import { GatewayError } from '../../domain/errors.ts';
import type { StreamReader, StreamStep } from './protocols/protocol.ts';
import type { Packets } from './upstream-exchange.ts';
import { upstreamBroke, upstreamUnreached } from './upstream-failures.ts';

/** Steps of a stream. */
export interface StepReader {
  /**
   * The steps of the next packet that has any; null when the upstream is through.
   * @throws GatewayError when it breaks off, or makes no sense; what came before has been given then
   */
  next: () => Promise<StreamStep[] | null>;
}

/** No event of an honest upstream is longer. */
const eventLengthMax = 32 * 1024 * 1024;

/** See the file's head. */
export function createStepReader(packets: Packets, reader: StreamReader): StepReader {
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
    async next() {
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
