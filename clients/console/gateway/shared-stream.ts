/**
 * Shares one event stream of jobs among all tabs of a browser, because browsers open only six
 * connections to a host.
 */

/** Message of the shared stream. `job` is a job, serialized as JSON. */
export type StreamMessage = { kind: 'open' | 'lost' } | { kind: 'job'; job: string };

type MessageHandler = (message: StreamMessage) => void;

/** Delay before a lost stream is reopened. The server may be restarting. */
const reconnectMs = 2000;

/**
 * Passes each message of the shared stream to `receive` until the returned function is called. The
 * visible tab that holds the Web Lock `name` opens the stream and forwards its messages; a hidden
 * tab releases the lock.
 */
export function subscribeToSharedStream(name: string, receive: MessageHandler): () => void {
  const channel = new BroadcastChannel(name);
  channel.addEventListener('message', ({ data }: MessageEvent<StreamMessage>) => receive(data));
  const publish: MessageHandler = (message) => {
    // oxlint-disable-next-line require-post-message-target-origin -- a channel has no target origin
    channel.postMessage(message);
    receive(message);
  };
  let controller: AbortController | undefined;

  function updateSubscription(): void {
    if (document.visibilityState === 'hidden') {
      controller?.abort();
      controller = undefined;
    } else if (!controller) {
      controller = new AbortController();
      void openWithLock(name, controller.signal, { publish, receive });
    }
  }

  document.addEventListener('visibilitychange', updateSubscription);
  updateSubscription();
  return () => {
    document.removeEventListener('visibilitychange', updateSubscription);
    controller?.abort();
    channel.close();
  };
}

async function openWithLock(
  name: string,
  signal: AbortSignal,
  { publish, receive }: { publish: MessageHandler; receive: MessageHandler },
): Promise<void> {
  // Browsers provide locks only over https and on localhost. Elsewhere, each visible tab opens its
  // own stream.
  if (!navigator.locks) return runStream(signal, receive);
  await navigator.locks
    .request(name, { signal }, () => runStream(signal, publish))
    .catch((error: unknown) => {
      if (!signal.aborted) throw error;
    });
}

/** Keeps a stream open, reopening it when it is lost, until `signal` is aborted. */
function runStream(signal: AbortSignal, publish: MessageHandler): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  let source: EventSource | undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;

  function connect(): void {
    source = new EventSource('/api/v1/studio/jobs/events');
    source.addEventListener('open', () => publish({ kind: 'open' }));
    source.addEventListener('job', ({ data }) => publish({ kind: 'job', job: String(data) }));
    source.addEventListener('error', () => {
      source?.close();
      timer = setTimeout(connect, reconnectMs);
      publish({ kind: 'lost' });
    });
  }

  function stop(): void {
    source?.close();
    clearTimeout(timer);
    resolve();
  }
  if (signal.aborted) stop();
  else {
    signal.addEventListener('abort', stop);
    connect();
  }
  return promise;
}
