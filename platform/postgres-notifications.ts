/**
 * Listens to notifications of Postgres on a connection of its own, which is opened again whenever
 * it is lost. A connection can also fail without an error: a network device forgets it, or a pooler
 * in transaction mode gives its session to other clients. The listener therefore notifies itself
 * every few seconds, over the connections that send the other notifications.
 */
import { randomUUID } from 'node:crypto';
import { Socket } from 'node:net';
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import { Client, escapeIdentifier } from 'pg';
import { parseDatabaseUrl } from './database-url.ts';
import type { Logger } from './logger.ts';

interface ListenerOptions {
  /** URL of the database, without a pooler in transaction mode. */
  url: string;
  channel: string;
  /** Sends a notification. */
  notify: (channel: string, payload: string) => Promise<unknown>;
  /** Receives the payload of each notification of the channel. */
  receive: (payload: string) => void;
  /** Is called when notifications may have been missed. */
  onInterrupt: () => void;
  /** Message of the error of a start at which notifications do not arrive. */
  silentMessage: string;
  logger: Logger;
}

const reconnectMs = 500;
const connectTimeoutMs = 3000;
/** Interval between two probes in milliseconds. */
const probeIntervalMs = 2000;
/** Time within which a probe must arrive, in milliseconds. */
const probeTimeoutMs = 2000;
/**
 * Times within which one of the probes at the start must arrive, in milliseconds. There are several,
 * because a process that starts on a busy machine can miss the first, and they are short, because a
 * process with a wrong configuration must end within seconds.
 */
const startProbesMs = [600, 900, 1200];

/** Opens a connection that listens to the channels. */
async function connectTo(
  { url, channel: mainChannel, logger, receive }: ListenerOptions,
  probe: Probe,
): Promise<{ client: Client; socket: Socket }> {
  const socket = new Socket();
  const client = new Client({
    ...parseDatabaseUrl(url),
    connectionTimeoutMillis: connectTimeoutMs,
    query_timeout: connectTimeoutMs,
    keepAlive: true,
    stream: () => socket,
  });
  client.on('error', (error) => logger.warn({ error }, 'job_listener.connection_lost'));
  client.on('notification', ({ channel, payload = '' }) => {
    if (channel === probe.channel) probe.arrive();
    else receive(payload);
  });
  try {
    await client.connect();
    for (const channel of [mainChannel, probe.channel]) {
      await client.query(`LISTEN ${escapeIdentifier(channel)}`);
    }
    return { client, socket };
  } catch (error) {
    socket.destroy();
    throw error;
  }
}

type Probe = ReturnType<typeof createProbe>;

/** Creates the probe of a process. It has its own channel, so that it does not wake other processes. */
function createProbe(notify: ListenerOptions['notify']) {
  const channel = `studio_probe_${randomUUID().replaceAll('-', '')}`;
  let hasArrived = false;
  let wake: (() => void) | null = null;
  return {
    channel,
    /** Reports that a probe has arrived. */
    arrive(): void {
      hasArrived = true;
      wake?.();
    },
    /** Sends a probe. Returns whether it arrived, or null if it could not be sent. */
    async send(timeoutMs = probeTimeoutMs): Promise<boolean | null> {
      hasArrived = false;
      const arrival = new Promise<void>((resolve) => {
        wake = resolve;
      });
      try {
        await notify(channel, '');
      } catch {
        return null;
      }
      await Promise.race([arrival, sleep(timeoutMs, undefined, { ref: false })]);
      // After a pause of the whole process, timers run before the sockets are read.
      await nextTurn();
      await nextTurn();
      return hasArrived;
    },
  };
}

/** Returns whether all probes at the start were sent and none arrived. */
async function isDeaf(probe: Probe): Promise<boolean> {
  for (const timeoutMs of startProbesMs) {
    if ((await probe.send(timeoutMs)) !== false) return false;
  }
  return true;
}

/**
 * Starts to listen. If the database cannot be reached, the connection is retried in the background.
 * @throws Error if it can be reached, but notifications do not arrive
 */
export async function openListener(options: ListenerOptions) {
  const { logger } = options;
  const probe = createProbe(options.notify);
  let isStopped = false;
  let connected: Awaited<ReturnType<typeof connectTo>> | null = null;
  let reconnectTimer: NodeJS.Timeout | undefined;

  function lose(): void {
    connected = null;
    options.onInterrupt();
    if (!isStopped) reconnectTimer = setTimeout(() => void connect(), reconnectMs);
  }

  async function connect(): Promise<void> {
    try {
      connected = await connectTo(options, probe);
      connected.client.once('end', lose);
    } catch (error) {
      logger.warn({ error }, 'job_listener.not_connected');
      lose();
    }
  }

  async function probeRepeatedly(): Promise<void> {
    for (;;) {
      await sleep(probeIntervalMs, undefined, { ref: false });
      if (isStopped) return;
      const probed = connected;
      if (!probed || (await probe.send()) !== false || connected !== probed) continue;
      logger.warn('job_listener.silent');
      // Closed without the driver, which would wait for the server.
      probed.socket.destroy();
    }
  }

  async function close(): Promise<void> {
    isStopped = true;
    clearTimeout(reconnectTimer);
    if (!connected) return;
    const { client, socket } = connected;
    // A silent server does not confirm the end of the connection.
    await Promise.race([client.end().catch(() => {}), sleep(1000)]);
    socket.destroy();
  }

  await connect();
  if (connected && (await isDeaf(probe))) {
    await close();
    throw new Error(options.silentMessage);
  }
  void probeRepeatedly();
  return { isListening: () => connected !== null, close };
}
