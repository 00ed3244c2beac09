/** The steps of the bare workflow, each as short as it can be written. */
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { sql } from 'slonik';
import { Agent, request } from 'undici';
import { z } from 'zod';
import type { DatabasePool } from '../../platform/database.ts';
import type { BareJob } from './contract.ts';

interface BareDeps {
  pool: DatabasePool;
  sandboxUrl: string;
  falKey: string;
  latencyMs: number;
  directory: string;
}

/** See `bareImage`. */
export interface BareActivities {
  reserve: (job: BareJob) => Promise<void>;
  callProvider: (job: BareJob) => Promise<string>;
  store: (file: BareJob & { fileUrl: string }) => Promise<string>;
  charge: (job: BareJob) => Promise<void>;
}

const none = z.object({});
const submitted = z.object({ response_url: z.string() });
const finished = z.object({ images: z.array(z.object({ url: z.string() })).min(1) });
const pollMs = 5;

/** Makes the table of the bare workflow. */
export async function createBareTable(pool: DatabasePool): Promise<void> {
  await pool.query(sql.type(none)`CREATE TABLE IF NOT EXISTS bare_job
    (id text PRIMARY KEY, state text NOT NULL)`);
}

/** Makes the activities. */
export function createBareActivities(deps: BareDeps): BareActivities {
  const { pool } = deps;
  const dispatcher = new Agent({ connections: 512, keepAliveTimeout: 30_000 });
  const headers = { authorization: `Key ${deps.falKey}`, 'content-type': 'application/json' };
  return {
    async reserve({ jobId }) {
      await pool.query(sql.type(none)`INSERT INTO bare_job (id, state)
        VALUES (${jobId}, ${'reserved'}) ON CONFLICT DO NOTHING`);
    },
    async callProvider({ jobId }) {
      const answer = await request(`${deps.sandboxUrl}/fal/queue/fal-ai/nano-banana`, {
        dispatcher,
        method: 'POST',
        headers,
        body: JSON.stringify({ prompt: jobId, num_images: 1 }),
      });
      const { response_url: resultUrl } = submitted.parse(await answer.body.json());
      for (let waitMs = deps.latencyMs; ; waitMs = pollMs) {
        await sleep(waitMs);
        const result = await request(resultUrl, { dispatcher, headers });
        const body = await result.body.json();
        if (result.statusCode === 200) return finished.parse(body).images[0]?.url ?? '';
      }
    },
    async store({ jobId, fileUrl }) {
      const answer = await request(fileUrl, { dispatcher });
      const path = join(deps.directory, `${jobId}.png`);
      const file = await open(path, 'w');
      try {
        await file.writeFile(await answer.body.bytes());
        await file.sync();
      } finally {
        await file.close();
      }
      return path;
    },
    async charge({ jobId }) {
      await pool.query(sql.type(none)`UPDATE bare_job SET state = ${'charged'}
        WHERE id = ${jobId}`);
    },
  };
}
