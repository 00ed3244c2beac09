/**
 * Command `npm run migrate`: migrates the database at DATABASE_URL to the newest schema. With `--
 * --plan` it lists the pending migrations instead. Exit status: 0 for success, 1 for a failure or
 * an incompatible database, 64 for an unknown option, 78 if DATABASE_URL is missing or invalid.
 */
import { databaseUrl as databaseUrlType } from './variable-types.ts';
import { migrate, listPendingMigrations } from './migrations.ts';

const databaseUrl = process.env['DATABASE_URL']?.trim();
const urlFault = databaseUrlType.safeParse(databaseUrl).error?.issues[0]?.message ?? null;
const [option, ...others] = process.argv.slice(2);

if ((option !== undefined && option !== '--plan') || others.length > 0) {
  process.stderr.write('migrate: the only option is --plan\n');
  process.exitCode = 64;
} else if (databaseUrl && urlFault !== null) {
  process.stderr.write(`configuration: DATABASE_URL is wrong: ${urlFault}\n`);
  process.exitCode = 78;
} else if (databaseUrl) {
  try {
    const names = await (option ? listPendingMigrations : migrate)(databaseUrl);
    const title = option ? 'pending' : 'migrated';
    process.stdout.write(
      names.length > 0 ? `${title}: ${names.join(', ')}\n` : 'schema is current\n',
    );
  } catch (error) {
    process.stderr.write(`migrate: ${error instanceof Error ? error.message : String(error)}\n`);
    process.exitCode = 1;
  }
} else {
  process.stderr.write('configuration: DATABASE_URL is required\n');
  process.exitCode = 78;
}
