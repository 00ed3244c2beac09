/** Client certificates that are renewed while the gateway runs: TLS fronts then refuse the earlier ones. */
import { afterAll, expect, inject, it } from 'vitest';
import { createLogger } from '../../platform/logger.ts';
import { startWorkerProcess } from '../../worker/worker-process.ts';
import { createAuthority, startTlsFront } from '../harness/certificates.ts';
import { useOwnGateway } from '../harness/gateway.ts';
import { until } from '../harness/until.ts';
import { readPage, sum } from '../telemetry/page.ts';

const authority = createAuthority();
authority.issue('client', { serial: 10, days: 2 });
const [host = '', port] = inject('temporalAddress').split(':');
const temporal = await startTlsFront(authority, { target: { host, port: Number(port) } });
afterAll(() => temporal.close());
let postgres: Awaited<ReturnType<typeof startTlsFront>> | undefined;
afterAll(() => postgres?.close());

const files = {
  cert: authority.path('client.crt'),
  key: authority.path('client.key'),
  ca: authority.path('ca.pem'),
};
const gateway = useOwnGateway({
  worker: false,
  async reach(databaseUrl) {
    const { hostname, port: serverPort } = new URL(databaseUrl);
    const target = { host: hostname, port: Number(serverPort) };
    postgres = await startTlsFront(authority, { target, postgres: true });
    const url = Object.assign(new URL(databaseUrl), { host: `127.0.0.1:${postgres.port}` });
    url.search = `?sslmode=verify-full&sslrootcert=${files.ca}&sslcert=${files.cert}&sslkey=${files.key}`;
    return { DATABASE_URL: url.href };
  },
  env: {
    TEMPORAL_ADDRESS: `127.0.0.1:${temporal.port}`,
    TEMPORAL_TLS_CERT_PATH: files.cert,
    TEMPORAL_TLS_KEY_PATH: files.key,
    TEMPORAL_TLS_CA_PATH: files.ca,
    CERTIFICATE_CHECK_MS: '100',
  },
});

/** Generates an image, with the API and the worker over Temporal and Postgres. */
async function generate(): Promise<void> {
  const body = { prompt: 'a key that is cut anew' };
  const answer = await gateway.call('/api/v1/studio/image/generate', { body });
  expect(answer, JSON.stringify(answer.body)).toMatchObject({ status: 200 });
}

it('new connections to Temporal and Postgres use renewed files, without a restart', async () => {
  const worker = await startWorkerProcess(
    { ...gateway.config, METRICS_PORT: 0 },
    createLogger('test', 'silent'),
  );
  try {
    await generate();
    const ready = await gateway.call('/readyz');
    expect(ready.body).toMatchObject({
      checks: { certificates: true },
      certificateDays: {
        TEMPORAL_TLS_CERT_PATH: expect.closeTo(2, 1),
        DATABASE_URL: expect.closeTo(2, 1),
      },
    });
    const metrics = `http://127.0.0.1:${worker.metricsPort}/metrics`;
    const daysLeft = async () =>
      sum(await readPage(metrics), 'gateway_certificate_days_left', { file: 'DATABASE_URL' });
    expect(await daysLeft()).toBeCloseTo(2, 1);

    authority.issue('client', { serial: 11, days: 40 });
    // The client of the API, the client of the worker process, and the worker.
    await until(() => temporal.serials.filter((serial) => serial === 11).length >= 3);
    temporal.refuse(10);
    postgres?.refuse(10);
    await until(
      async () => (await gateway.call<{ status: string }>('/readyz')).body.status === 'ready',
    );
    await generate();
    expect(postgres?.serials).toContain(11);
    expect(await daysLeft()).toBeCloseTo(40, 1);
  } finally {
    await worker.close();
  }
});
