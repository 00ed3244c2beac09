/** A local stack of stand-ins in a process of its own; DATA_DIR and the ports come from outside. */
import { LocalStack } from '../../../../dev/stack/local-stack.ts';
import { readSettings } from '../../../../dev/stack/settings.ts';

const stack = new LocalStack({
  settings: readSettings(process.env),
  env: process.env,
  programs: {
    sandbox: 'test/dev/stack/stand-in/sandbox.ts',
    migrate: 'test/dev/stack/stand-in/migrate.ts',
    api: 'test/dev/stack/stand-in/api.ts',
    worker: 'test/dev/stack/stand-in/worker.ts',
  },
  ensureDemoOrganization: (request) =>
    Promise.resolve({ organizationId: 'org_demo', apiKey: request.apiKey ?? `key_${Date.now()}` }),
  report: (line) => console.log(line),
});
process.once('SIGTERM', () => void stack.stop().finally(() => process.exit(0)));
try {
  await stack.start();
  console.log('READY');
} catch (error) {
  console.log(String(error));
  await stack.stop();
  process.exit(1);
}
