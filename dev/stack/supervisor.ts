import { setTimeout as sleep } from 'node:timers/promises';
import { describeExit, type Exit, type Running } from './running.ts';

/** Program that the supervisor keeps running. */
export interface Service {
  name: string;
  /** Starts the program and returns when it is ready. @throws Error with a message for the user */
  start(): Promise<Running>;
}

export interface SupervisorOptions {
  /** Receives a line about every restart. */
  report: (line: string) => void;
  /** Called when a process starts or exits, with the ids of the running processes by name. */
  onChange?: (processes: Record<string, number>) => void;
  /** Milliseconds before the first restart, doubled for each further one. Defaults to 200. */
  restartMinMs?: number;
  /** Maximum milliseconds before a restart. Defaults to 5,000. */
  restartMaxMs?: number;
}

/** A service that runs this long without a crash starts again with the shortest wait. */
const stableMs = 30_000;
/** How long a stop waits for services that are still starting. */
const pendingMs = 15_000;

/**
 * Keeps services running. Starts them in stages, restarts those that exit after growing delays, and
 * stops them in reverse order.
 */
export class Supervisor {
  readonly #options: Required<SupervisorOptions>;
  readonly #stages: Service[][] = [];
  readonly #running = new Map<string, Running>();
  readonly #waits = new Map<string, number>();
  readonly #pending = new Set<Promise<unknown>>();
  readonly #stopping = new AbortController();
  #stopped: Promise<void> | undefined;

  constructor(options: SupervisorOptions) {
    this.#options = { restartMinMs: 200, restartMaxMs: 5_000, onChange: () => {}, ...options };
  }

  /** Returns the ids of the running processes by service name. */
  get processes(): Record<string, number> {
    return Object.fromEntries([...this.#running].map(([name, { pid }]) => [name, pid]));
  }

  /**
   * Starts services in parallel and returns when all are ready.
   * @throws the first failure, once all services of the stage have started or failed
   */
  async start(...stage: Service[]): Promise<void> {
    this.#stages.push(stage);
    const starts = Promise.allSettled(stage.map((service) => this.#startOne(service)));
    this.#track(starts);
    const results = await starts;
    const failed = results.find((result) => result.status === 'rejected');
    if (failed) throw failed.reason;
  }

  async #startOne(service: Service): Promise<void> {
    this.#stopping.signal.throwIfAborted();
    const running = await service.start();
    if (this.#stopping.signal.aborted) {
      await running.stop();
      this.#stopping.signal.throwIfAborted();
    }
    this.#running.set(service.name, running);
    this.#options.onChange(this.processes);
    this.#track(this.#watch(service, running));
  }

  /** Records work that `stop` must wait for. */
  #track(work: Promise<unknown>): void {
    this.#pending.add(work);
    void work.finally(() => this.#pending.delete(work));
  }

  async #watch(service: Service, running: Running): Promise<void> {
    const startedAt = performance.now();
    const exit = await running.exited;
    if (this.#stopping.signal.aborted) return;
    this.#running.delete(service.name);
    this.#options.onChange(this.processes);
    const uptimeMs = performance.now() - startedAt;
    await this.#restart(service, { exit, uptimeMs });
  }

  async #restart(service: Service, end: { exit: Exit; uptimeMs: number }): Promise<void> {
    const { report, restartMinMs, restartMaxMs } = this.#options;
    let problem = describeExit(end.exit);
    if (end.uptimeMs > stableMs) this.#waits.delete(service.name);
    for (;;) {
      const waitMs = this.#waits.get(service.name) ?? restartMinMs;
      this.#waits.set(service.name, Math.min(waitMs * 2, restartMaxMs));
      report(`${service.name} ${problem}; restarting in ${waitMs / 1000} s`);
      try {
        await sleep(waitMs, undefined, { signal: this.#stopping.signal });
        await this.#startOne(service);
        report(`${service.name} is running again`);
        return;
      } catch (error) {
        if (this.#stopping.signal.aborted) return;
        problem = `could not be started (${error instanceof Error ? error.message : String(error)})`;
      }
    }
  }

  /** Stops all services, the last stage first. A second call waits for the same stop. */
  async stop(): Promise<void> {
    this.#stopped ??= this.#stopAll();
    await this.#stopped;
  }

  async #stopAll(): Promise<void> {
    this.#stopping.abort(new Error('the stack is stopping'));
    for (const stage of this.#stages.toReversed()) {
      await Promise.allSettled(
        stage.map(async ({ name }) => await this.#running.get(name)?.stop()),
      );
    }
    // A service that becomes ready now stops itself. A long download is not waited for.
    await Promise.race([Promise.allSettled(this.#pending), sleep(pendingMs, null, { ref: false })]);
    this.#running.clear();
  }

  /** Kills all services immediately. */
  kill(): void {
    this.#stopping.abort(new Error('the stack was killed'));
    for (const running of this.#running.values()) running.kill();
  }
}
