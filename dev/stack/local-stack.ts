import { mkdirSync, rmSync } from 'node:fs';
import type { ensureDemoOrganization } from './demo.ts';
import { lockInstance, type InstanceLock } from './instance-lock.ts';
import { nodeService, runNode } from './node-service.ts';
import { startPostgres } from './postgres.ts';
import { writePrivateFile } from './private-file.ts';
import { loadSecrets, saveSecrets, type Secrets } from './secrets.ts';
import { claimPorts, type Settings } from './settings.ts';
import { stackFile, type StackDescription } from './stack-file.ts';
import { planStack, processMarks, type Programs, type StackPlan } from './stack-plan.ts';
import { Supervisor, type Service } from './supervisor.ts';
import { findTemporalCli } from './temporal-cli.ts';
import { probeTemporal, startTemporal } from './temporal.ts';

export interface LocalStackOptions {
  settings: Settings;
  /** The user's environment, which the programs inherit. */
  env: NodeJS.ProcessEnv;
  /** Scripts to run. Defaults to those of this project. */
  programs?: Programs;
  ensureDemoOrganization: typeof ensureDemoOrganization;
  report: (line: string) => void;
}

/** Stack of one data directory: Postgres, Temporal, provider sandbox, API and worker. */
export class LocalStack {
  readonly #options: LocalStackOptions;
  readonly #supervisor: Supervisor;
  #lock: InstanceLock | undefined;
  #description: StackDescription | undefined;

  constructor(options: LocalStackOptions) {
    this.#options = options;
    this.#supervisor = new Supervisor({
      report: options.report,
      onChange: (processes) => this.#record(processes),
    });
  }

  /**
   * Starts all services and returns when they are ready. Call `stop` if it fails, or to interrupt it.
   * @throws AlreadyRunningError if another stack uses the data directory
   */
  async start(): Promise<StackDescription> {
    const { settings, env, programs, report } = this.#options;
    const { dataDir } = settings;
    mkdirSync(dataDir, { recursive: true, mode: 0o700 });
    const secrets = loadSecrets(dataDir);
    const draft = planStack({ settings, secrets, env, programs, ports: settings.ports });
    this.#lock = await lockInstance(dataDir, { marks: processMarks(draft), report });
    rmSync(stackFile(dataDir), { force: true });
    const ports = await claimPorts(settings);
    const plan = planStack({ settings, secrets, env, programs, ports });

    if (!plan.temporal) await this.#checkTemporal(plan);
    await this.#stage(this.#postgres(plan), ...this.#temporal(plan), nodeService(plan.sandbox));
    await runNode(plan.migrate);
    const demo = await this.#demoOrganization(plan, secrets);
    await this.#stage(nodeService(plan.api), nodeService(plan.worker));

    const { apiUrl, temporalAddress, temporalNamespace, temporalUiUrl } = plan;
    this.#description = {
      apiUrl,
      temporalAddress,
      temporalNamespace,
      temporalUiUrl,
      databaseUrl: plan.databaseUrl,
      sandboxUrl: plan.sandboxUrl,
      ...demo,
      adminKey: secrets.adminKey,
      processes: {},
    };
    this.#record(this.#supervisor.processes);
    return { ...this.#description, processes: this.#supervisor.processes };
  }

  async #stage(...services: Service[]): Promise<void> {
    const startedAt = performance.now();
    await this.#supervisor.start(...services);
    const seconds = ((performance.now() - startedAt) / 1000).toFixed(1);
    this.#options.report(`${services.map(({ name }) => name).join(', ')} ready in ${seconds} s`);
  }

  #postgres({ postgres }: StackPlan): Service {
    return { name: 'postgres', start: () => startPostgres(postgres) };
  }

  #temporal({ temporal }: StackPlan): Service[] {
    if (!temporal) return [];
    const { report } = this.#options;
    const start = async () =>
      await startTemporal({ ...temporal, executable: await findTemporalCli({ report }) });
    return [{ name: 'temporal', start }];
  }

  async #checkTemporal({ temporalAddress, temporalNamespace }: StackPlan): Promise<void> {
    await probeTemporal(temporalAddress, temporalNamespace).catch((error: unknown) => {
      throw new Error(
        `cannot reach namespace ${temporalNamespace} at TEMPORAL_ADDRESS ${temporalAddress} (${String(error)})`,
        { cause: error },
      );
    });
  }

  async #demoOrganization({ databaseUrl }: StackPlan, secrets: Secrets) {
    const { settings, env } = this.#options;
    const { demoApiKey, keyPepper } = secrets;
    const demo = await this.#options.ensureDemoOrganization({
      databaseUrl,
      keyPepper,
      previousKeyPepper: env['KEY_PEPPER_PREVIOUS'],
      demoCredits: settings.demoCredits,
      apiKey: demoApiKey,
    });
    if (demo.apiKey !== demoApiKey) {
      saveSecrets(settings.dataDir, { ...secrets, demoApiKey: demo.apiKey });
    }
    return demo;
  }

  #record(processes: Record<string, number>): void {
    this.#lock?.record(processes);
    if (!this.#description) return;
    const content = JSON.stringify({ ...this.#description, processes }, null, 2);
    writePrivateFile(stackFile(this.#options.settings.dataDir), `${content}\n`);
  }

  /** Stops all services in order and removes `stack.json`. */
  async stop(): Promise<void> {
    await this.#supervisor.stop();
    this.#forget();
  }

  /** Kills all services immediately. */
  kill(): void {
    this.#supervisor.kill();
    this.#forget();
  }

  #forget(): void {
    // Without the lock, these files belong to another stack.
    if (!this.#lock) return;
    this.#description = undefined;
    rmSync(stackFile(this.#options.settings.dataDir), { force: true });
    this.#lock.release();
    this.#lock = undefined;
  }
}
