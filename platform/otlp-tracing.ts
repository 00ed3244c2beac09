/** Spans over OTLP/HTTP. Loaded only where an endpoint is configured (see telemetry.ts). */
import { hostname } from 'node:os';
import {
  ROOT_CONTEXT,
  SpanKind,
  SpanStatusCode,
  trace,
  type Context,
  type Span,
} from '@opentelemetry/api';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http';
import { resourceFromAttributes } from '@opentelemetry/resources';
import {
  BatchSpanProcessor,
  TraceIdRatioBasedSampler,
  TracerProvider,
} from '@opentelemetry/sdk-trace';
import { correlate, currentSpan, withSpan } from './correlation.ts';
import type { OpenSpan, SpanStart, Tracing } from './telemetry.ts';

interface OtlpOptions {
  /** The collector's trace endpoint, e.g. http://127.0.0.1:4318/v1/traces */
  url: string;
  headers: Record<string, string>;
  serviceName: string;
  /** Share of traces that are kept. */
  ratio: number;
  flushIntervalMs: number;
}

const kinds: Record<SpanStart['kind'], SpanKind> = {
  internal: SpanKind.INTERNAL,
  server: SpanKind.SERVER,
  client: SpanKind.CLIENT,
  producer: SpanKind.PRODUCER,
  consumer: SpanKind.CONSUMER,
};
/** https://www.w3.org/TR/trace-context/#traceparent-header */
const traceparentForm = /^00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})$/;
/** A process that ends waits no longer for its collector. */
const closeTimeoutMs = 3000;

/** Opens the exporter; a collector that is away costs spans, never requests. */
export function openOtlpTracing(options: OtlpOptions): Tracing {
  const provider = new TracerProvider({
    resource: resourceFromAttributes({
      'service.name': options.serviceName,
      'service.instance.id': `${hostname()}:${process.pid}`,
    }),
    // The trace id alone decides, here and in every process after it: a caller's `sampled` flag must
    // not choose what we pay for, and a trace is kept whole or not at all.
    sampler: new TraceIdRatioBasedSampler(options.ratio),
    spanProcessors: [
      new BatchSpanProcessor({
        exporter: new OTLPTraceExporter({ url: options.url, headers: options.headers }),
        scheduledDelayMillis: options.flushIntervalMs,
      }),
    ],
  });
  const tracer = provider.getTracer('studio-gateway');

  return {
    async inSpan(start, work) {
      const parent = parentOf(start);
      const span = tracer.startSpan(
        start.name,
        { kind: kinds[start.kind], ...(start.attributes && { attributes: start.attributes }) },
        parent,
      );
      correlate({ traceId: span.spanContext().traceId });
      try {
        return await withSpan(trace.setSpan(parent, span), () => work(openSpan(span)));
      } catch (error) {
        // The message may hold what a caller wrote: the class says enough.
        span.setStatus({ code: SpanStatusCode.ERROR });
        span.setAttribute('error.type', error instanceof Error ? error.name : typeof error);
        throw error;
      } finally {
        span.end();
      }
    },
    traceparent() {
      const span = trace.getSpanContext(currentSpan() ?? ROOT_CONTEXT);
      if (!span) return undefined;
      const flags = span.traceFlags.toString(16).padStart(2, '0');
      return `00-${span.traceId}-${span.spanId}-${flags}`;
    },
    async close() {
      const late = new Promise<void>((resolve) => {
        setTimeout(resolve, closeTimeoutMs).unref();
      });
      await Promise.race([provider.shutdown().catch(() => {}), late]);
    },
  };
}

function parentOf({ traceparent }: SpanStart): Context {
  if (traceparent === undefined) return currentSpan() ?? ROOT_CONTEXT;
  const [, traceId, spanId, flags] = traceparentForm.exec(traceparent) ?? [];
  if (traceId === undefined || spanId === undefined) return ROOT_CONTEXT;
  return trace.setSpanContext(ROOT_CONTEXT, {
    traceId,
    spanId,
    traceFlags: Number.parseInt(flags ?? '0', 16),
    isRemote: true,
  });
}

function openSpan(span: Span): OpenSpan {
  return {
    rename: (name) => void span.updateName(name),
    set: (attributes) => void span.setAttributes(attributes),
    fail: (why) => void span.setStatus({ code: SpanStatusCode.ERROR, message: why }),
  };
}
