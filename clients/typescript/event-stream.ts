/** Server-sent events of an answer. */
import { EventSourceParserStream } from 'eventsource-parser/stream';
import { StudioError } from './errors.ts';

/** The data of each event, until the stream ends. @throws StudioError CONNECTION_FAILED when it breaks */
export async function* eventData(response: Response): AsyncGenerator<string, void, undefined> {
  if (!response.body) return;
  const reader = response.body
    .pipeThrough(new TextDecoderStream())
    .pipeThrough(new EventSourceParserStream())
    .getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read().catch((error: unknown) => {
        throw new StudioError('CONNECTION_FAILED', 'The stream ended unexpectedly.', {
          cause: error,
        });
      });
      if (done) return;
      yield value.data;
    }
  } finally {
    // Who stops listening closes the connection.
    await reader.cancel().catch(() => {});
  }
}
