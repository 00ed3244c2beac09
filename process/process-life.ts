/** Reports to the supervisor that a process is ready, and drains the process before it exits. */

/** Notifies the parent process, if there is one, that this process is ready. */
export function announceReady(details: Record<string, unknown> = {}): void {
  process.send?.({ type: 'ready', ...details });
}

/**
 * Runs `drain` after SIGTERM, SIGINT or the end of the parent process, and then exits. Further
 * signals are ignored. If `drain` takes longer than `timeoutMs` milliseconds, the process exits
 * with status 1.
 */
export function drainOnExit(drain: () => Promise<void>, timeoutMs: number): void {
  let isDraining = false;
  const onSignal = (): void => {
    if (isDraining) return;
    isDraining = true;
    const exitTimer = setTimeout(() => process.exit(1), timeoutMs);
    exitTimer.unref();
    drain().then(
      () => process.exit(0),
      () => process.exit(1),
    );
  };
  process.on('SIGTERM', onSignal);
  process.on('SIGINT', onSignal);
  if (process.send) process.on('disconnect', onSignal);
}
