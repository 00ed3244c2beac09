/** Reads the server-sent events of a response. */
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
  if (!response.body) return;
  const reader = response.body
    .pipeThrough(new TextDecoderStream())
    .pipeThrough(new EventSourceParserStream())
    .getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read().catch((error: unknown) => {
        signal?.throwIfAborted();
        throw new StudioError('CONNECTION_FAILED', 'The stream ended unexpectedly.', {
          cause: error,
        });
      });
      if (done) return;
      yield value.data;
    }
  } finally {
    // Closes the connection if the caller stops reading before the stream ends.
    await reader.cancel().catch(() => {});
  }
}
