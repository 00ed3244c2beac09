/** What a process tells about itself: metrics, served where a port is configured, and traces, if it exports any. */
import type { Config } from './config.ts';
import { createMetrics, type Metrics } from './metrics.ts';
import { batchSent, firstTokenSent } from './observations.ts';
import { openTracing, type Tracing } from './tracing.ts';

/** With it the parts of a process are observed. */
export interface Telemetry {
  metrics: Metrics;
  tracing: Tracing;
  /** Exports what is left. */
  close: () => Promise<void>;
}

/** Opens both. */
export async function openTelemetry(config: Config): Promise<Telemetry> {
  const metrics = createMetrics();
  const tracing = await openTracing(config);
  const stops = subscribe(metrics);
  return {
    metrics,
    tracing,
    async close() {
      for (const stop of stops) stop();
      await tracing.close();
    },
  };
}

function subscribe({ batchSize, firstTokenSeconds }: Metrics): (() => void)[] {
  return [
    batchSent.subscribe(({ batch, size }) => batchSize.observe({ batch }, size)),
    firstTokenSent.subscribe(({ provider, seconds }) =>
      firstTokenSeconds.observe({ provider }, seconds),
    ),
  ];
}
