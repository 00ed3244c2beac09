/**
 * Starts the OpenTelemetry SDK with its OTLP/HTTP exporter. telemetry.ts loads this file only if an
 * endpoint is configured.
 */
import { hostname } from 'node:os';
import { context, propagation, trace } from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import { W3CTraceContextPropagator } from '@opentelemetry/core';
import { OTLPTraceExporter as JsonExporter } from '@opentelemetry/exporter-trace-otlp-http';
import { OTLPTraceExporter as ProtobufExporter } from '@opentelemetry/exporter-trace-otlp-proto';
import { resourceFromAttributes } from '@opentelemetry/resources';
import {
  BatchSpanProcessor,
  TraceIdRatioBasedSampler,
  TracerProvider,
} from '@opentelemetry/sdk-trace';
import { release } from './release.ts';

interface OtlpOptions {
  /** URL to which traces are sent, such as http://127.0.0.1:4318/v1/traces */
  url: string;
  protocol: 'http/protobuf' | 'http/json';
  headers: Record<string, string>;
  serviceName: string;
  /** Additional resource attributes, such as `deployment.environment.name`. */
  resource: Record<string, string>;
  /** Share of the traces that are exported, from 0 to 1. */
  ratio: number;
  flushIntervalMs: number;
}

/** Maximum time for which a stopping process waits for the collector. */
const closeTimeoutMs = 3000;

/**
 * Registers the SDK and its exporter with the OpenTelemetry API. If the collector is unreachable,
 * spans are lost, but no request fails.
 * @returns the function that exports the remaining spans
 */
export function startOtlpTracing(options: OtlpOptions): () => Promise<void> {
  const { url, protocol, headers } = options;
  const Exporter = protocol === 'http/json' ? JsonExporter : ProtobufExporter;
  const provider = new TracerProvider({
    resource: resourceFromAttributes({
      ...options.resource,
      'service.name': options.serviceName,
      'service.namespace': 'studio-gateway',
      'service.version': release,
      'service.instance.id': `${hostname()}:${process.pid}`,
    }),
    // The sampling decision depends only on the trace id. It is the same in every process, so a
    // trace is exported completely or not at all. The `sampled` flag of a caller is ignored,
    // because callers must not cause costs.
    sampler: new TraceIdRatioBasedSampler(options.ratio),
    spanProcessors: [
      new BatchSpanProcessor({
        exporter: new Exporter({ url, headers }),
        scheduledDelayMillis: options.flushIntervalMs,
      }),
    ],
  });
  trace.setGlobalTracerProvider(provider);
  context.setGlobalContextManager(new AsyncLocalStorageContextManager());
  propagation.setGlobalPropagator(new W3CTraceContextPropagator());
  return async () => {
    const timeout = new Promise<void>((resolve) => {
      setTimeout(resolve, closeTimeoutMs).unref();
    });
    await Promise.race([provider.shutdown().catch(() => {}), timeout]);
  };
}
