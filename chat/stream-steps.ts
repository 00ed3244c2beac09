/** Parses a provider's event stream: splits packets into events, and converts them to steps. */
import { finished, PassThrough, type Readable } from 'node:stream';
import { createParser } from 'eventsource-parser';
import { GatewayError } from '../domain/errors.ts';
import type { StreamReader, StreamStep } from './protocols/protocol.ts';
import { StreamTextRepair } from './text-repair.ts';
import { invalidResponseError, networkFailure } from './upstream-failures.ts';

/** Maximum length of one event in UTF-16 units; a longer event counts as a provider error. */
const eventLengthMax = 32 * 1024 * 1024;

/**
 * Yields the steps of each packet, and skips packets without steps.
 * @throws GatewayError if the stream ends early or cannot be parsed; the steps before the error
 * have been yielded by then
 */
export async function* readSteps(
  body: Readable,
  reader: StreamReader,
): AsyncGenerator<StreamStep[], void> {
  const decoder = new TextDecoder();
  let steps: StreamStep[] = [];
  const repair = new StreamTextRepair();
  const parser = createParser({
    maxBufferSize: eventLengthMax,
    onEvent(event) {
      const step = reader.read({ ...event, data: repair.repair(event.data) });
      if (step) steps.push(step);
    },
  });
  // A failed stream discards the packets that were not yet read. The PassThrough stream delivers
  // them before it ends.
  const packets = new PassThrough();
  let streamError: unknown = null;
  finished(body, (error) => {
    streamError = error ?? null;
    packets.end();
  });
  body.pipe(packets, { end: false });
  for await (const packet of packets) {
    let failure: GatewayError | null = null;
    try {
      parser.feed(decoder.decode(packet, { stream: true }));
    } catch (error) {
      failure = error instanceof GatewayError ? error : invalidResponseError(error);
    }
    if (steps.length > 0) yield steps;
    if (failure) throw failure;
    steps = [];
  }
  // An error after the last event is ignored, because the answer is complete.
  if (streamError !== null && !reader.complete) throw networkFailure(streamError);
}
