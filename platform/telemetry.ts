/**
 * What a process tells about itself: metrics, served where a port is configured, and traces, if it exports any. Without
 * OTEL_EXPORTER_OTLP_ENDPOINT no tracer is loaded, and work runs in no span. No span travels to strangers: providers
 * get no `traceparent`.
 */
import type { Config } from './config.ts';
import { createMetrics, type Metrics } from './metrics.ts';

/** What a span says when it begins. Attributes are ids and words, never contents. */
export interface SpanStart {
  name: string;
  kind: 'server' | 'client' | 'producer' | 'consumer' | 'internal';
  attributes?: Record<string, string | number | boolean>;
  /** W3C trace context of the span that caused this one; without it, the current span did. */
  traceparent?: string | undefined;
}

/** A span while it is open. */
export interface OpenSpan {
  rename: (name: string) => void;
  set: (attributes: Record<string, string | number | boolean>) => void;
  /** Marks it as failed although nothing was thrown. */
  fail: (why: string) => void;
}

/** Spans of a process. */
export interface Tracing {
  /** Runs work in a span; what it throws marks the span and is thrown on. */
  inSpan: <Result>(start: SpanStart, work: (span: OpenSpan) => Promise<Result>) => Promise<Result>;
  /** W3C trace context of the current span. */
  traceparent: () => string | undefined;
  /** Exports what is left. */
  close: () => Promise<void>;
}

const noSpan: OpenSpan = { rename: () => {}, set: () => {}, fail: () => {} };

/** Where no exporter is configured. */
const noTracing: Tracing = {
  inSpan: (_start, work) => work(noSpan),
  traceparent: () => undefined,
  close: () => Promise.resolve(),
};

/** With it the parts of a process are observed. */
export interface Telemetry {
  metrics: Metrics;
  tracing: Tracing;
}

/** Opens both. */
export async function openTelemetry(config: Config): Promise<Telemetry> {
  return { metrics: createMetrics(), tracing: await openTracing(config) };
}

/** Opens the exporter, if one is configured. */
async function openTracing(config: Config): Promise<Tracing> {
  const endpoint = config.OTEL_EXPORTER_OTLP_ENDPOINT;
  if (endpoint === undefined) return noTracing;
  const { openOtlpTracing } = await import('./otlp-tracing.ts');
  return openOtlpTracing({
    url: `${endpoint.replace(/\/$/, '')}/v1/traces`,
    headers: config.OTEL_EXPORTER_OTLP_HEADERS,
    serviceName: config.OTEL_SERVICE_NAME,
    ratio: config.OTEL_TRACES_SAMPLER_ARG,
    flushIntervalMs: config.OTEL_BSP_SCHEDULE_DELAY,
  });
}
