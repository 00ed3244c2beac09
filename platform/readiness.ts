/** Whether a process can do its work now: named checks, each with a time limit. */

/** Checks by name; true when that part can be used now. */
export type Checks = Record<string, () => Promise<boolean>>;

/** What a process is asked. */
export interface Readiness {
  /** Without one of these it can do nothing. */
  required: Checks;
  /** Without one of these it can do some of its work, and says so. */
  wished: Checks;
}

/** The answer of `/readyz`. */
export interface ReadinessReport {
  ready: boolean;
  status: 'ready' | 'degraded' | 'not ready';
  checks: Record<string, boolean>;
}

const checkTimeoutMs = 3000;

/** Runs all checks side by side. A check that throws or takes too long has failed. */
export async function checkReadiness(readiness: Readiness): Promise<ReadinessReport> {
  const [required, wished] = await Promise.all([
    runAll(readiness.required),
    runAll(readiness.wished),
  ]);
  const ready = Object.values(required).every(Boolean);
  const status = !ready ? 'not ready' : Object.values(wished).every(Boolean) ? 'ready' : 'degraded';
  return { ready, status, checks: { ...required, ...wished } };
}

async function runAll(checks: Checks): Promise<Record<string, boolean>> {
  const entries = Object.entries(checks).map(async ([name, check]): Promise<[string, boolean]> => [
    name,
    await within(check),
  ]);
  return Object.fromEntries(await Promise.all(entries));
}

async function within(check: () => Promise<boolean>): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<boolean>((resolve) => {
    timer = setTimeout(resolve, checkTimeoutMs, false);
  });
  try {
    return await Promise.race([check().catch(() => false), late]);
  } finally {
    clearTimeout(timer);
  }
}
