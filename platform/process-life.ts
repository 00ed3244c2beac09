/**
 * Start and end of a process under a supervisor: the process reports that it is ready, and drains
 * once before it exits.
 */

/** Reports to the parent process, if there is one, that this process serves. */
export function announceReady(details: Record<string, unknown> = {}): void {
  process.send?.({ type: 'ready', ...details });
}

/**
 * Runs `drain` once on SIGTERM, SIGINT or after the parent has ended, then exits. A second signal,
 * or a drain that takes longer than `timeoutMs`, exits at once.
 */
export function drainOnExit(drain: () => Promise<void>, timeoutMs: number): void {
  let draining = false;
  const onSignal = (): void => {
    if (draining) return;
    draining = true;
    const late = setTimeout(() => process.exit(1), timeoutMs);
    late.unref();
    drain().then(
      () => process.exit(0),
      () => process.exit(1),
    );
  };
  process.on('SIGTERM', onSignal);
  process.on('SIGINT', onSignal);
  if (process.send) process.on('disconnect', onSignal);
}
