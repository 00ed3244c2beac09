/** The driven process's side: a job's steps, which do nothing, and its loads on demand. */
import { randomUUID } from 'node:crypto';
import { z } from 'zod';
import { runOpenLoop, untilEnded, type LoadResult, type OpenLoad } from './open-loop.ts';

/** The steps of a job. They do nothing: what they cost is their engine's. */
export interface Steps {
  reserve: (jobId: string) => Promise<void>;
  /** The provider has the job from here on, and notifies when its time is over. */
  submit: (jobId: string) => Promise<void>;
  store: (jobId: string) => Promise<void>;
  charge: (jobId: string) => Promise<void>;
}

/** An engine that runs jobs of these steps. */
export interface Engine {
  /** Ways to write the job → begins one; resolves when the engine has it. */
  begin: Record<string, (jobId: string) => Promise<unknown>>;
  /** The provider's notification. */
  notify: (jobId: string) => Promise<void>;
  stop: () => Promise<void>;
}

/** Steps, and the engine that `serve` drives with them. */
export interface DrivenJobs {
  steps: Steps;
  /** Runs the loads that the parent asks for, until it says or drops dead; says `ready` first. */
  serve: (engine: Engine) => void;
}

const command = z.object({
  way: z.string(),
  rate: z.number(),
  seconds: z.number(),
  providerSeconds: z.number(),
});

/** Makes the steps of one process. */
export function openJobs(): DrivenJobs {
  const createdAt = new Map<string, number>();
  const endedAt = new Map<string, number>();
  let providerMs = 0;
  let notify: (jobId: string) => Promise<void>;
  let firstFailure: string | null = null;

  function create(jobId: string): void {
    if (!createdAt.has(jobId)) createdAt.set(jobId, Date.now());
  }
  const steps: Steps = {
    async reserve(jobId) {
      create(jobId);
    },
    async submit(jobId) {
      // The shortest form of a job begins here.
      create(jobId);
      setTimeout(() => {
        notify(jobId).catch((error: unknown) => (firstFailure ??= String(error)));
      }, providerMs);
    },
    async store() {},
    async charge(jobId) {
      endedAt.set(jobId, Date.now());
    },
  };

  async function run(begin: Engine['begin'][string], load: OpenLoad): Promise<LoadResult> {
    createdAt.clear();
    endedAt.clear();
    providerMs = load.providerSeconds * 1000;
    firstFailure = null;
    const { accepted, ...asked } = await runOpenLoop(load, async () => {
      const jobId = `bench-${randomUUID()}`;
      await begin(jobId);
      return jobId;
    });
    await untilEnded(load, () => accepted.size - endedAt.size);
    const jobs = [...accepted].flatMap(([jobId, askedAtMs]) => {
      const [createdAtMs, endedAtMs] = [createdAt.get(jobId), endedAt.get(jobId)];
      return createdAtMs && endedAtMs ? [{ askedAtMs, createdAtMs, endedAtMs }] : [];
    });
    const failure = asked.firstFailure ?? firstFailure;
    return { ...asked, jobs, lost: accepted.size - jobs.length, firstFailure: failure };
  }

  return {
    steps,
    serve(engine) {
      notify = engine.notify;
      listen(engine, run);
    },
  };
}

function listen(
  engine: Engine,
  run: (begin: Engine['begin'][string], load: OpenLoad) => Promise<LoadResult>,
): void {
  process.on('message', (message) => {
    const { way, ...load } = command.parse(message);
    const begin = engine.begin[way];
    if (!begin) throw new Error(`there is no job ${way}`);
    void run(begin, load).then((result) => process.send?.(result));
  });
  let stopping = false;
  const end = async (): Promise<void> => {
    if (stopping) return;
    stopping = true;
    await engine.stop();
    process.exit(0);
  };
  process.on('SIGTERM', () => void end());
  process.on('disconnect', () => void end());
  process.send?.({ type: 'ready' });
}
