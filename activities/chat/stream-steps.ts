/** Reads an upstream's event stream: packets → events → the steps that each packet holds. */
import { finished, PassThrough, type Readable } from 'node:stream';
import { createParser } from 'eventsource-parser';
import { GatewayError } from '../../domain/errors.ts';
import type { StreamReader, StreamStep } from './protocols/protocol.ts';
import { upstreamBroke, upstreamUnreached } from './upstream-failures.ts';

/** No event of an honest upstream is longer. */
const eventLengthMax = 32 * 1024 * 1024;

/**
 * The steps of each packet that has any, until the upstream is through.
 * @throws GatewayError when it breaks off, or makes no sense; what came before has been given then
 */
export async function* readSteps(
  body: Readable,
  reader: StreamReader,
): AsyncGenerator<StreamStep[], void> {
  const decoder = new TextDecoder();
  let steps: StreamStep[] = [];
  const parser = createParser({
    maxBufferSize: eventLengthMax,
    onEvent(event) {
      const step = reader.read(event);
      if (step) steps.push(step);
    },
  });
  // A stream that breaks throws away what nobody has read: this one keeps it, and ends.
  const packets = new PassThrough();
  let broken: unknown = null;
  finished(body, (error) => {
    broken = error ?? null;
    packets.end();
  });
  body.pipe(packets, { end: false });
  for await (const packet of packets) {
    let failure: GatewayError | null = null;
    try {
      parser.feed(decoder.decode(packet, { stream: true }));
    } catch (error) {
      failure = error instanceof GatewayError ? error : upstreamBroke(error);
    }
    if (steps.length > 0) yield steps;
    if (failure) throw failure;
    steps = [];
  }
  // What breaks after the last word broke nothing.
  if (broken !== null && !reader.complete) throw upstreamUnreached(broken);
}
