import { Client } from 'pg';

const client = new Client({ connectionString: process.env['DATABASE_URL'] });
await client.connect();
await client.query('CREATE TABLE IF NOT EXISTS migrated (at timestamptz DEFAULT now())');
await client.query('INSERT INTO migrated DEFAULT VALUES');
await client.end();
