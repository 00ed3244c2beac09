/**
 * The same steps as the bare workflow's, as DBOS Transact's documentation writes them: a workflow of
 * two steps, a message, two steps, each on record in Postgres when the next begins. The package is no
 * dependency of the project: it is loaded from where `install.ts` put it.
 */
import { createRequire } from 'node:module';
import { z } from 'zod';
import { openJobs } from '../driven.ts';

type Job = (jobId: string) => Promise<void>;

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
  registerWorkflow: (run: Job, config: { name: string }) => Job;
  startWorkflow: (
    workflow: Job,
    params: { workflowID: string },
  ) => (jobId: string) => Promise<unknown>;
  runStep: (run: () => Promise<void>, config: { name: string }) => Promise<void>;
  send: (workflowId: string, message: string, topic: string) => Promise<void>;
  recv: (topic: string, timeoutSeconds: number) => Promise<unknown>;
}

const { DBOS_MANIFEST: manifest, DATABASE_URL: databaseUrl } = z
  .object({ DBOS_MANIFEST: z.string(), DATABASE_URL: z.string() })
  .parse(process.env);
const load = createRequire(manifest);
const { DBOS } = z.object({ DBOS: z.custom<Dbos>() }).parse(load('@dbos-inc/dbos-sdk'));

/** Nothing here may end by it: a job that is not notified is lost. */
const recvTimeoutSeconds = 3600;
const { steps, serve } = openJobs();
DBOS.setConfig({
  name: 'bench',
  systemDatabaseUrl: databaseUrl,
  // As many connections as our own processes have.
  systemDatabasePoolSize: 12,
  logLevel: 'warn',
});
const image = DBOS.registerWorkflow(
  async (jobId: string) => {
    await DBOS.runStep(() => steps.reserve(jobId), { name: 'reserve' });
    await DBOS.runStep(() => steps.submit(jobId), { name: 'submit' });
    await DBOS.recv('provider', recvTimeoutSeconds);
    await DBOS.runStep(() => steps.store(jobId), { name: 'store' });
    await DBOS.runStep(() => steps.charge(jobId), { name: 'charge' });
  },
  { name: 'image' },
);
await DBOS.launch();

serve({
  begin: { dbos: (jobId) => DBOS.startWorkflow(image, { workflowID: jobId })(jobId) },
  notify: (jobId) => DBOS.send(jobId, 'done', 'provider'),
  stop: () => DBOS.shutdown(),
});
