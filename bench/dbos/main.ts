/**
 * The same steps as the bare workflow's, as DBOS Transact's documentation writes them: a workflow of
 * four steps, each on record in Postgres when the next begins. The package is no dependency of the
 * project: it is loaded from where `install.ts` put it.
 */
import { randomUUID } from 'node:crypto';
import { createRequire } from 'node:module';
import { z } from 'zod';
import { openSteps, serveJobs } from '../driven.ts';

/** The part of DBOS that is used here, version 5.3. */
interface Dbos {
  setConfig: (config: {
    name: string;
    systemDatabaseUrl: string;
    systemDatabasePoolSize: number;
    logLevel: string;
  }) => void;
  launch: () => Promise<void>;
  shutdown: () => Promise<void>;
  registerWorkflow: <Input>(
    run: (input: Input) => Promise<void>,
    config: { name: string },
  ) => (input: Input) => Promise<void>;
  runStep: <Result>(run: () => Promise<Result>, config: { name: string }) => Promise<Result>;
}

const { DBOS_MANIFEST } = z.object({ DBOS_MANIFEST: z.string() }).parse(process.env);
const load = createRequire(DBOS_MANIFEST);
const { DBOS } = z.object({ DBOS: z.custom<Dbos>() }).parse(load('@dbos-inc/dbos-sdk'));

const { pool, activities, databaseUrl } = await openSteps('dbos');
DBOS.setConfig({
  name: 'bench',
  systemDatabaseUrl: databaseUrl,
  // As many connections as our own processes have.
  systemDatabasePoolSize: 12,
  logLevel: 'warn',
});
const image = DBOS.registerWorkflow(
  async (job: { jobId: string }) => {
    await DBOS.runStep(() => activities.reserve(job), { name: 'reserve' });
    const fileUrl = await DBOS.runStep(() => activities.callProvider(job), { name: 'call' });
    await DBOS.runStep(() => activities.store({ ...job, fileUrl }), { name: 'store' });
    await DBOS.runStep(() => activities.charge(job), { name: 'charge' });
  },
  { name: 'image' },
);
await DBOS.launch();

serveJobs({ dbos: () => image({ jobId: `dbos-${randomUUID()}` }) }, async () => {
  await DBOS.shutdown();
  await pool.end();
});
