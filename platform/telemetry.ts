/**
 * Opens the metrics and traces of a process. Spans use the OpenTelemetry API, which has no effect
 * unless OTEL_EXPORTER_OTLP_ENDPOINT is set. Providers receive no span context.
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
import { GatewayError } from '../domain/errors.ts';
import { ProviderFailure } from '../domain/provider-failure.ts';
import type { Config } from './config.ts';
import { correlate, correlation } from './logger.ts';
import { createMetrics, type Metrics } from './metrics.ts';

/**
 * Name and options of a span. Its attributes contain only ids and names from closed lists, never
 * texts of callers.
 */
interface SpanStart extends SpanOptions {
  name: string;
  /** Context of the parent span. Defaults to the current context. */
  parent?: Context;
}

const tracer = trace.getTracer('studio-gateway');

/** Records a span for work that has already ended and so could not run in `inSpan`. */
export function recordSpan(
  { name, parent = context.active(), ...options }: SpanStart,
  { endedAtMs, hasFailed }: { endedAtMs: number; hasFailed: boolean },
): void {
  const span = tracer.startSpan(name, options, parent);
  if (hasFailed) span.setStatus({ code: SpanStatusCode.ERROR });
  span.end(endedAtMs);
}

/** Kind of process, as named in traces and logs. */
export type ProcessKind = 'api' | 'worker';

/**
 * Returns the value of the span attribute `error.type`: an error code of the gateway, the kind of a
 * provider failure, or the name of the error. The message is not included, because it may contain a
 * caller's text.
 */
function getErrorType(error: unknown): string {
  if (error instanceof GatewayError) return error.code;
  if (error instanceof ProviderFailure) return error.kind;
  return error instanceof Error ? error.name : typeof error;
}

/**
 * Runs a function in a span, and adds the trace id and span id to its log lines. If the function
 * throws, the span is marked as failed, and the error is rethrown.
 */
export function inSpan<Result>(
  { name, parent = context.active(), ...options }: SpanStart,
  work: (span: Span) => Promise<Result>,
): Promise<Result> {
  return tracer.startActiveSpan(name, options, parent, async (span) => {
    const spanContext = span.spanContext();
    if (isSpanContextValid(spanContext)) {
      // The outermost span id is stored for log lines that are written outside a span.
      const { spanId = spanContext.spanId } = correlation();
      correlate({ traceId: spanContext.traceId, spanId });
    }
    try {
      return await work(span);
    } catch (error) {
      span.setStatus({ code: SpanStatusCode.ERROR });
      span.setAttribute('error.type', getErrorType(error));
      throw error;
    } finally {
      span.end();
    }
  });
}

/** Metrics of a process, and the function that ends its tracing. */
export interface Telemetry {
  metrics: Metrics;
  /** Exports the remaining spans. */
  closeTracing: () => Promise<void>;
}

/** Creates the metrics, and starts the exporter of spans if one is configured. */
export async function openTelemetry(config: Config, kind: ProcessKind): Promise<Telemetry> {
  return { metrics: createMetrics(), closeTracing: await openTracing(config, kind) };
}

async function openTracing(config: Config, kind: ProcessKind): Promise<Telemetry['closeTracing']> {
  const endpoint = config.OTEL_EXPORTER_OTLP_ENDPOINT;
  if (endpoint === undefined) return () => Promise.resolve();
  const { startOtlpTracing } = await import('./otlp-tracing.ts');
  return startOtlpTracing({
    url: `${endpoint.replace(/\/$/, '')}/v1/traces`,
    protocol: config.OTEL_EXPORTER_OTLP_PROTOCOL,
    headers: config.OTEL_EXPORTER_OTLP_HEADERS,
    serviceName: `${config.OTEL_SERVICE_NAME}-${kind}`,
    resource: config.OTEL_RESOURCE_ATTRIBUTES,
    ratio: config.OTEL_TRACES_SAMPLER_ARG,
    flushIntervalMs: config.OTEL_BSP_SCHEDULE_DELAY,
  });
}
