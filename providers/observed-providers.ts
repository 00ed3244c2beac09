/** Adds metrics and traces to requests to providers. */
import { SpanKind } from '@opentelemetry/api';
import { GatewayError } from '../domain/errors.ts';
import type { Metrics } from '../platform/metrics.ts';
import { inSpan } from '../platform/telemetry.ts';
import { ProviderFailure } from '../domain/provider-failure.ts';
import { NotificationRejected, type Provider, type OperationsApi } from './provider.ts';

interface Observers {
  metrics: Metrics;
}
type RequestVerb = 'submit' | 'check' | 'cancel' | 'chat';

/** Labels of a request to a provider. */
interface RequestLabels {
  provider: string;
  verb: RequestVerb;
}

/**
 * Function that runs a request to a provider and records its metrics and its span. `getOutcome`
 * returns the outcome label for the result of the request.
 */
type Observe = <Result>(
  labels: RequestLabels,
  run: () => Promise<Result>,
  getOutcome: (result: Result) => string,
) => Promise<Result>;

/** Creates the function that adds metrics and traces to requests to providers. */
export function createObserve({ metrics }: Observers): Observe {
  return ({ provider, verb }, run, getOutcome) =>
    inSpan(
      {
        name: `provider.${verb} ${provider}`,
        kind: SpanKind.CLIENT,
        attributes: { 'provider.name': provider, 'provider.verb': verb },
      },
      async (span) => {
        const startedAtMs = performance.now();
        let outcome = 'error';
        try {
          const result = await run();
          outcome = getOutcome(result);
          span.setAttributes({ 'provider.outcome': outcome });
          return result;
        } catch (error) {
          outcome = getErrorOutcome(error);
          throw error;
        } finally {
          const seconds = (performance.now() - startedAtMs) / 1000;
          metrics.providerSeconds.observe({ provider, verb }, seconds);
          metrics.providerRequests.inc({ provider, verb, outcome });
        }
      },
    );
}

/**
 * Returns the outcome label for an error: the kind of a provider failure, a code from the error
 * table, or `error`.
 */
function getErrorOutcome(error: unknown): string {
  if (error instanceof ProviderFailure) return error.kind;
  return error instanceof GatewayError ? error.code : 'error';
}

/** Adds metrics and traces to the Studio providers. */
export function observeProviders(
  providers: Map<string, Provider>,
  observers: Observers,
): Map<string, Provider> {
  const observe = createObserve(observers);
  return new Map(
    [...providers].map(([name, provider]) => {
      // The series starts at 0, so that a monitoring system sees the first request as an increase.
      observers.metrics.providerRequests.inc({ provider: name, verb: 'submit', outcome: 'ok' }, 0);
      const observedProvider: Provider = {
        ...provider,
        submit: (submission) =>
          observe(
            { provider: name, verb: 'submit' },
            () => provider.submit(submission),
            () => 'ok',
          ),
        operations:
          provider.operations &&
          observeOperations(name, provider.operations, { ...observers, observe }),
      };
      return [name, observedProvider];
    }),
  );
}

function observeOperations(
  provider: string,
  operations: OperationsApi,
  { metrics, observe }: Observers & { observe: Observe },
): OperationsApi {
  return {
    ...operations,
    check: (operation, options) =>
      observe(
        { provider, verb: 'check' },
        () => operations.check(operation, options),
        (checked) => {
          if (checked.kind === 'pending') return 'pending';
          if (checked.kind === 'failed') return checked.failure.kind;
          const { wokenBy } = options;
          if (wokenBy) metrics.providerResults.inc({ provider, woken_by: wokenBy });
          return 'ok';
        },
      ),
    cancel: (operation, signal) =>
      observe(
        { provider, verb: 'cancel' },
        () => operations.cancel(operation, signal),
        () => 'ok',
      ),
    async verify(raw) {
      try {
        return await operations.verify(raw);
      } catch (error) {
        if (error instanceof NotificationRejected) {
          metrics.notifications.inc({ provider, outcome: 'rejected' });
        }
        throw error;
      }
    },
  };
}
