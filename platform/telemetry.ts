/**
 * Metrics and traces of a process. Spans use the OpenTelemetry API, which does nothing until
 * OTEL_EXPORTER_OTLP_ENDPOINT loads an SDK. No span context is sent to providers.
 */
import {
  context,
  isSpanContextValid,
  SpanStatusCode,
  trace,
  type Context,
  type Span,
  type SpanOptions,
} from '@opentelemetry/api';
import type { Config } from './config.ts';
import { correlate } from './correlation.ts';
import { createMetrics, type Metrics } from './metrics.ts';

/** Name and options of a span. Attributes are ids and names of closed lists, never contents. */
interface SpanStart extends SpanOptions {
  name: string;
  /** Context of the parent span; absent: the current one. */
  parent?: Context;
}

const tracer = trace.getTracer('studio-gateway');

/**
 * Runs a function in a span, and adds the trace id to its log lines; an error marks the span and is
 * thrown again.
 */
export function inSpan<Result>(
  { name, parent = context.active(), ...options }: SpanStart,
  work: (span: Span) => Promise<Result>,
): Promise<Result> {
  return tracer.startActiveSpan(name, options, parent, async (span) => {
    const spanContext = span.spanContext();
    if (isSpanContextValid(spanContext)) correlate({ traceId: spanContext.traceId });
    try {
      return await work(span);
    } catch (error) {
      // The class of the error without its message, which may contain a caller's text.
      span.setStatus({ code: SpanStatusCode.ERROR });
      span.setAttribute('error.type', error instanceof Error ? error.name : typeof error);
      throw error;
    } finally {
      span.end();
    }
  });
}

/** Metrics of a process, and the end of its traces. */
export interface Telemetry {
  metrics: Metrics;
  /** Exports the remaining spans. */
  closeTracing: () => Promise<void>;
}

/** Creates the metrics, and starts the exporter of spans if one is configured. */
export async function openTelemetry(config: Config): Promise<Telemetry> {
  return { metrics: createMetrics(), closeTracing: await openTracing(config) };
}

async function openTracing(config: Config): Promise<Telemetry['closeTracing']> {
  const endpoint = config.OTEL_EXPORTER_OTLP_ENDPOINT;
  if (endpoint === undefined) return () => Promise.resolve();
  const { startOtlpTracing } = await import('./otlp-tracing.ts');
  return startOtlpTracing({
    url: `${endpoint.replace(/\/$/, '')}/v1/traces`,
    headers: config.OTEL_EXPORTER_OTLP_HEADERS,
    serviceName: config.OTEL_SERVICE_NAME,
    ratio: config.OTEL_TRACES_SAMPLER_ARG,
    flushIntervalMs: config.OTEL_BSP_SCHEDULE_DELAY,
  });
}
