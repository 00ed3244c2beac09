/**
 * Opens the metrics port, which serves /metrics for Prometheus, and /healthz and /readyz for
 * probes. It is separate from the API's port, and listens on METRICS_HOST (by default the loopback
 * interface).
 */
import { createServer, type Server, type ServerResponse } from 'node:http';
import { collectDefaultMetrics } from 'prom-client';
import { assert } from '../domain/errors.ts';
import type { Config } from '../platform/config.ts';
import type { Metrics } from '../platform/metrics.ts';
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

/**
 * Returns the option of a host to listen on. For `::`, Node.js chooses all addresses of IPv6 and
 * IPv4, and those of IPv4 alone on a machine without IPv6.
 */
export const listenHost = (host: string): { host?: string } => (host === '::' ? {} : { host });

/** Opens the metrics port. Returns null if METRICS_PORT is not set. */
export async function openMetricsServer(
  config: Config,
  options: MetricsServerOptions,
): Promise<MetricsServer | null> {
  if (config.METRICS_PORT === undefined) return null;
  // Registered only if the port is open, because the metrics of Node.js are sampled continuously.
  collectDefaultMetrics({ register: options.metrics.registry });
  const server = createServer((request, response) => {
    void respond(options, request.url ?? '', response).catch(() => response.destroy());
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen({ port: config.METRICS_PORT, ...listenHost(config.METRICS_HOST) }, resolve);
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

/**
 * Returns the metrics of the Temporal SDK. They are appended to the gateway's metrics, so that one
 * scrape reads both.
 */
async function sdkMetrics(url: string | null): Promise<string> {
  if (url === null) return '';
  try {
    const page = await fetch(url, { signal: AbortSignal.timeout(sdkTimeoutMs) });
    return page.ok ? await page.text() : '';
  } catch {
    // The response contains only the gateway's metrics if those of the SDK cannot be read.
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
