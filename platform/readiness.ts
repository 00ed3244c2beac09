/** Whether a process can do its work now: named checks, each with a time limit. */

/** Checks by name; true when that part can be used now. */
export type Readiness = Record<string, () => Promise<boolean>>;

/** The answer of `/readyz`. */
export interface ReadinessReport {
  ready: boolean;
  checks: Record<string, boolean>;
}

const checkTimeoutMs = 3000;

/** Runs all checks side by side. A check that throws or takes too long has failed. */
export async function checkReadiness(readiness: Readiness): Promise<ReadinessReport> {
  const entries = await Promise.all(
    Object.entries(readiness).map(async ([name, check]) => [name, await within(check)] as const),
  );
  return { ready: entries.every(([, holds]) => holds), checks: Object.fromEntries(entries) };
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
