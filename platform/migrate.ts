/**
 * `npm run migrate`: brings the database of DATABASE_URL to the newest schema. With `-- --plan` it only says what it
 * would do. Exit status: 0 done, 1 refused or failed, 64 not understood, 78 without DATABASE_URL.
 */
import { migrate, planMigration, type MigrationPlan } from './migrations.ts';

const databaseUrl = process.env['DATABASE_URL'];
const [option, ...others] = process.argv.slice(2);

if ((option !== undefined && option !== '--plan') || others.length > 0) {
  process.stderr.write('migrate: the only option is --plan\n');
  process.exitCode = 64;
} else if (databaseUrl) {
  try {
    process.stdout.write(option ? planText(await planMigration(databaseUrl)) : await run());
  } catch (error) {
    process.stderr.write(`migrate: ${error instanceof Error ? error.message : String(error)}\n`);
    process.exitCode = 1;
  }
} else {
  process.stderr.write('configuration: DATABASE_URL is required\n');
  process.exitCode = 78;
}

async function run(): Promise<string> {
  const ran = await migrate(databaseUrl ?? '');
  return ran.length > 0 ? `migrated: ${ran.join(', ')}\n` : 'schema is current\n';
}

function planText({ version, nextVersion, migrations, functions }: MigrationPlan): string {
  const files = Object.entries(functions).flatMap(([state, names]) =>
    names.map((name) => `${name} (${state})`),
  );
  if (migrations.length === 0 && files.length === 0) {
    return `schema ${version} is current: nothing to do\n`;
  }
  return [
    `schema ${version} in the database, ${nextVersion} in this code`,
    migrations.length === 0
      ? 'tables: no migration to run'
      : `tables: would run ${migrations.join(', ')}`,
    files.length === 0
      ? 'functions: would be made anew, unchanged'
      : `functions: would be made anew; of sql/: ${files.join(', ')}`,
    'all in one transaction; nothing was changed\n',
  ].join('\n');
}
