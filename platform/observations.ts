/**
 * Small events of hot paths, for whoever counts them: published to no one they cost nothing. The process
 * subscribes when it measures (platform/telemetry.ts); the code that publishes knows no metrics.
 */

interface Observation<Event> {
  publish: (event: Event) => void;
  /** Hears the events from now on; returns what stops it. */
  subscribe: (hear: (event: Event) => void) => () => void;
}

function observation<Event>(): Observation<Event> {
  const listeners = new Set<(event: Event) => void>();
  return {
    publish(event) {
      for (const hear of listeners) hear(event);
    },
    subscribe(hear) {
      listeners.add(hear);
      return () => {
        listeners.delete(hear);
      };
    },
  };
}

/** A group commit was sent: whose, and how many items shared it. */
export const batchSent = observation<{ batch: string; size: number }>();

/** The first words of a streamed chat left for the caller. */
export const firstTokenSent = observation<{ provider: string; seconds: number }>();
