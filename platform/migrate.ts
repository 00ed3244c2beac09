/** `npm run migrate`: brings the database of DATABASE_URL to the newest schema. */
import { migrate } from './migrations.ts';

const databaseUrl = process.env['DATABASE_URL'];
if (databaseUrl) {
  try {
    const ran = await migrate(databaseUrl);
    process.stdout.write(ran.length > 0 ? `migrated: ${ran.join(', ')}\n` : 'schema is current\n');
  } catch (error) {
    process.stderr.write(`migrate: ${error instanceof Error ? error.message : String(error)}\n`);
    process.exitCode = 1;
  }
} else {
  process.stderr.write('configuration: DATABASE_URL is required\n');
  process.exitCode = 78;
}
