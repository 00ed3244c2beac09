/** Reads the event stream of a provider: packets → events → steps. */
import { finished, PassThrough, type Readable } from 'node:stream';
import { createParser } from 'eventsource-parser';
import { GatewayError } from '../domain/errors.ts';
import type { StreamReader, StreamStep } from './protocols/protocol.ts';
import { upstreamBroke, upstreamUnreached } from './upstream-failures.ts';

/** Highest length of one event in UTF-16 units; a longer event is an error of the provider. */
const eventLengthMax = 32 * 1024 * 1024;

/**
 * Yields the steps of each packet that contains steps, until the stream ends.
 * @throws GatewayError if the stream ends early or cannot be parsed, after the steps before that
 * were yielded
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
  // A stream that fails drops its unread packets; the PassThrough stream keeps them, and then ends
  // without an error.
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
  // An error after the last event is ignored, because the answer is complete.
  if (broken !== null && !reader.complete) throw upstreamUnreached(broken);
}
