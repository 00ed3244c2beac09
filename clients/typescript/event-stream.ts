/** Reads the server-sent events, or the lines, of a streamed response. */
import { EventSourceParserStream } from 'eventsource-parser/stream';
import { StudioError } from './errors.ts';

/**
 * Yields the data of each event until the stream ends.
 * @throws StudioError CONNECTION_FAILED if the connection breaks; the signal's reason if it is
 * aborted
 */
export async function* readEvents(
  response: Response,
  signal?: AbortSignal,
): AsyncGenerator<string, void, undefined> {
  const events = decode(response)?.pipeThrough(new EventSourceParserStream());
  for await (const { data } of readParts(events, signal)) yield data;
}

/** Yields each line that is not empty until the stream ends. @throws the errors of `readEvents` */
export async function* readLines(
  response: Response,
  signal?: AbortSignal,
): AsyncGenerator<string, void, undefined> {
  let rest = '';
  for await (const text of readParts(decode(response), signal)) {
    const lines = (rest + text).split('\n');
    rest = lines.pop() ?? '';
    yield* lines.filter((line) => line !== '');
  }
  if (rest !== '') yield rest;
}

const decode = (response: Response): ReadableStream<string> | undefined =>
  response.body?.pipeThrough(new TextDecoderStream());

async function* readParts<Part>(
  stream: ReadableStream<Part> | undefined,
  signal: AbortSignal | undefined,
): AsyncGenerator<Part, void, undefined> {
  if (!stream) return;
  const reader = stream.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read().catch((error: unknown) => {
        signal?.throwIfAborted();
        throw new StudioError('CONNECTION_FAILED', 'The stream ended unexpectedly.', {
          cause: error,
        });
      });
      if (done) return;
      yield value;
    }
  } finally {
    // Closes the connection if the caller stops reading before the stream ends.
    await reader.cancel().catch(() => {});
  }
}
