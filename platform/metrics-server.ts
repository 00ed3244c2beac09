/**
 * Metrics port: /metrics for Prometheus, /healthz and /readyz for probes. It is separate from the
 * API's port, and listens on METRICS_HOST (by default the loopback interface).
 */
import { createServer, type Server, type ServerResponse } from 'node:http';
import { collectDefaultMetrics } from 'prom-client';
import { assert } from '../domain/errors.ts';
import type { Config } from './config.ts';
import type { Metrics } from './metrics.ts';
import { checkReadiness, type Readiness } from './readiness.ts';

interface MetricsServerOptions {
  metrics: Metrics;
  readiness: Readiness;
  /** URL of the Temporal SDK's own metrics; only workers have one. */
  sdkMetricsUrl?: string | null;
}

/** Open metrics port. */
export interface MetricsServer {
  port: number;
  close: () => Promise<void>;
}

const sdkTimeoutMs = 2000;

/** Opens METRICS_PORT. Returns null if it is not set. */
export async function openMetricsServer(
  config: Config,
  options: MetricsServerOptions,
): Promise<MetricsServer | null> {
  if (config.METRICS_PORT === undefined) return null;
  // Node's metrics are sampled continuously, so they are registered only if the port is open.
  collectDefaultMetrics({ register: options.metrics.registry });
  const server = createServer((request, response) => {
    void respond(options, request.url ?? '', response).catch(() => response.destroy());
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(config.METRICS_PORT, config.METRICS_HOST, resolve);
  });
  const address = server.address();
  assert(typeof address === 'object' && address, 'the metrics server has no port');
  return { port: address.port, close: () => closeServer(server) };
}

async function respond(
  options: MetricsServerOptions,
  url: string,
  response: ServerResponse,
): Promise<void> {
  const path = url.split('?', 1)[0];
  if (path === '/metrics') {
    const text = `${await options.metrics.page()}${await sdkMetrics(options.sdkMetricsUrl ?? null)}`;
    response.writeHead(200, { 'content-type': options.metrics.registry.contentType }).end(text);
  } else if (path === '/healthz') {
    sendJson(response, 200, { status: 'ok' });
  } else if (path === '/readyz') {
    const { ready, ...report } = await checkReadiness(options.readiness);
    sendJson(response, ready ? 200 : 503, report);
  } else sendJson(response, 404, { error: 'NOT_FOUND' });
}

function sendJson(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}

/** Returns the SDK's metrics, which are appended to the page so that one scrape reads both. */
async function sdkMetrics(url: string | null): Promise<string> {
  if (url === null) return '';
  try {
    const page = await fetch(url, { signal: AbortSignal.timeout(sdkTimeoutMs) });
    return page.ok ? await page.text() : '';
  } catch {
    // If the SDK's metrics cannot be read, the page contains only those of the gateway.
    return '';
  }
}

async function closeServer(server: Server): Promise<void> {
  const closed = new Promise<void>((resolve) => {
    server.close(() => resolve());
  });
  server.closeAllConnections();
  await closed;
}
