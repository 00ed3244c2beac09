/** What a process tells about itself, as configured: metrics, traces, both or neither. */
import type { Config } from './config.ts';
import { createMetrics, type Metrics } from './metrics.ts';
import { batchSent, firstTokenSent } from './observations.ts';
import { openTracing, type Tracing } from './tracing.ts';

/** Each part is null where it is not configured; then nothing is measured for it. */
export interface Telemetry {
  metrics: Metrics | null;
  tracing: Tracing | null;
  /** Exports what is left. */
  close: () => Promise<void>;
}

/** Opens what is configured. */
export async function openTelemetry(config: Config): Promise<Telemetry> {
  const metrics = config.METRICS_PORT === undefined ? null : createMetrics();
  const tracing = await openTracing(config);
  const stops = metrics ? subscribe(metrics) : [];
  return {
    metrics,
    tracing,
    async close() {
      for (const stop of stops) stop();
      await tracing?.close();
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
