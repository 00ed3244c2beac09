/** The inbox of webhooks, with what came in counted and the way to the workflow timed. */
import type { Metrics } from '../../platform/metrics.ts';
import type { Inbox, InboxNotification } from './notifications.ts';

/** Observes an inbox. */
export function observeInbox(inbox: Inbox, metrics: Metrics | null): Inbox {
  if (!metrics) return inbox;
  const { notifications, notificationSeconds } = metrics;
  // One that is told again later is another object: its age is a gauge of the worker.
  const keptAtMs = new WeakMap<InboxNotification, number>();
  return {
    ...inbox,
    async keep(notification) {
      const startedAtMs = performance.now();
      const known = await inbox.keep(notification);
      const { provider } = notification;
      notifications.inc({ provider, outcome: known === 'new' ? 'new' : 'repeated' });
      if (known === 'new') keptAtMs.set(notification, startedAtMs);
      return known;
    },
    async mark(notification, state) {
      await inbox.mark(notification, state);
      const { provider } = notification;
      const startedAtMs = keptAtMs.get(notification);
      if (state === 'late') notifications.inc({ provider, outcome: 'late' });
      else if (startedAtMs !== undefined) {
        notificationSeconds.observe({ provider }, (performance.now() - startedAtMs) / 1000);
      }
    },
  };
}
