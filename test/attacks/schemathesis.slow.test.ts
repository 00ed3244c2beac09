import { beforeAll, describe, expect, it } from 'vitest';
import { useOwnGateway } from '../harness/gateway.ts';
import { installSchemathesis, runSchemathesis } from '../harness/schemathesis.ts';

// Random requests may leave anything behind.
const gateway = useOwnGateway(
  {
    credits: 1_000_000_000,
    sandboxEnv: { SANDBOX_TINY_MEDIA: '1' },
    env: { SYNC_WAIT_MS: '5000' },
  },
  'never',
);
let otherKeyId: string;
beforeAll(async () => {
  await installSchemathesis();
  otherKeyId = (await gateway.newKey()).keyId;
}, 600_000);

describe.each([
  ['callers', '/api/v1/openapi.json', () => gateway.caller.key],
  ['operators', '/api/admin/v1/openapi.json', () => gateway.config.ADMIN_API_KEY],
])('the OpenAPI description for %s', (_whom, path, keyOf) => {
  it('matches the responses to generated requests: no 5xx, no undescribed response', async () => {
    const seed = process.env['SEED'] ?? '1';
    const { failed, report } = await runSchemathesis({
      url: gateway.url + path,
      key: keyOf(),
      otherKeyId,
      examples: Number(process.env['SCHEMATHESIS_EXAMPLES'] ?? 5),
      seed,
    });
    expect(failed, `seed ${seed}\n${report.slice(-20_000)}`).toBe(false);
    expect(report).toMatch(/\d+ generated/);
    expect(await gateway.database.audit()).toEqual([]);
  }, 1_800_000);
});
