/** Metrics and traces of providers. Nothing is added to the requests. */
import { SpanKind } from '@opentelemetry/api';
import { GatewayError } from '../domain/errors.ts';
import type { Metrics } from '../platform/metrics.ts';
import { inSpan } from '../platform/telemetry.ts';
import { ProviderFailure } from '../domain/provider-failure.ts';
import { NotificationRefused, type Provider, type ProviderQueue } from './provider.ts';

interface Observers {
  metrics: Metrics;
}
type Verb = 'submit' | 'check' | 'cancel' | 'chat';

/** Labels of one exchange. */
interface ProviderExchange {
  provider: string;
  verb: Verb;
}

/** Runs an exchange; `outcomeOf` returns the outcome label of a response. */
type Observe = <Answer>(
  exchange: ProviderExchange,
  run: () => Promise<Answer>,
  outcomeOf: (answer: Answer) => string,
) => Promise<Answer>;

export function createObserve({ metrics }: Observers): Observe {
  return ({ provider, verb }, run, outcomeOf) =>
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
          const answer = await run();
          outcome = outcomeOf(answer);
          span.setAttributes({ 'provider.outcome': outcome });
          return answer;
        } catch (error) {
          outcome = outcomeOfError(error);
          throw error;
        } finally {
          const seconds = (performance.now() - startedAtMs) / 1000;
          metrics.providerSeconds.observe({ provider, verb }, seconds);
          metrics.providerRequests.inc({ provider, verb, outcome });
        }
      },
    );
}

/** Outcome labels: the kinds of a provider failure, or the codes of the error table. */
function outcomeOfError(error: unknown): string {
  if (error instanceof ProviderFailure) return error.kind;
  return error instanceof GatewayError ? error.code : 'error';
}

/** Observes the providers of Studio. */
export function observeProviders(
  providers: Map<string, Provider>,
  observers: Observers,
): Map<string, Provider> {
  const observe = createObserve(observers);
  return new Map(
    [...providers].map(([name, provider]) => {
      // Series that start at 0, so that the first failure of a provider is an increase and not a
      // new series.
      observers.metrics.providerRequests.inc({ provider: name, verb: 'submit', outcome: 'ok' }, 0);
      const observed: Provider = {
        ...provider,
        submit: (submission) =>
          observe(
            { provider: name, verb: 'submit' },
            () => provider.submit(submission),
            () => 'ok',
          ),
        queue: provider.queue && observeQueue(name, provider.queue, { ...observers, observe }),
      };
      return [name, observed];
    }),
  );
}

function observeQueue(
  provider: string,
  queue: ProviderQueue,
  { metrics, observe }: Observers & { observe: Observe },
): ProviderQueue {
  return {
    ...queue,
    check: (operation, options) =>
      observe(
        { provider, verb: 'check' },
        () => queue.check(operation, options),
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
        () => queue.cancel(operation, signal),
        () => 'ok',
      ),
    async verify(raw) {
      try {
        return await queue.verify(raw);
      } catch (error) {
        if (error instanceof NotificationRefused) {
          metrics.notifications.inc({ provider, outcome: 'refused' });
        }
        throw error;
      }
    },
  };
}
