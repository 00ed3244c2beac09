/** What a process tells of itself, and whom (docs/telemetry.md). */
import { z } from 'zod';
import { count, port } from './values.ts';

/** `name=value,name=value`, percent-encoded (OpenTelemetry's specification of OTLP headers). */
const headerList = z
  .string()
  .default('')
  .refine(
    (text) => text === '' || /^[^=,\s]+=[^,]*(,[^=,\s]+=[^,]*)*$/.test(text),
    'must be name=value,…',
  )
  .transform((text): Record<string, string> =>
    Object.fromEntries(
      text
        .split(',')
        .filter(Boolean)
        .map((pair) => {
          const at = pair.indexOf('=');
          return [pair.slice(0, at), decodeURIComponent(pair.slice(at + 1))];
        }),
    ),
  );

/** See the file's head. */
export const telemetryVariables = {
  /** Serves /metrics, /healthz and /readyz of this process; absent = not served. 0 = any port. */
  METRICS_PORT: port.optional(),
  METRICS_HOST: z.string().min(1).default('127.0.0.1'),
  /** An OTLP/HTTP collector; absent = nothing is traced. */
  OTEL_EXPORTER_OTLP_ENDPOINT: z.url({ protocol: /^https?$/ }).optional(),
  OTEL_EXPORTER_OTLP_HEADERS: headerList,
  OTEL_SERVICE_NAME: z.string().min(1).default('studio-gateway'),
  /** Share of traces that are kept, 0 to 1. */
  OTEL_TRACES_SAMPLER_ARG: z.coerce.number().min(0).max(1).default(1),
  /** Milliseconds between exports. */
  OTEL_BSP_SCHEDULE_DELAY: count(50, 600_000).default(5000),
};
