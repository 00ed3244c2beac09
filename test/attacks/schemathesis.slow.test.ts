import { beforeAll, describe, expect, it } from 'vitest';
import { useOwnGateway } from '../harness/gateway.ts';
import {
  installSchemathesis,
  runSchemathesis,
  type Operations,
  type Subject,
} from '../harness/schemathesis.ts';

// Random requests may leave anything behind.
const gateway = useOwnGateway(
  {
    credits: 1_000_000_000,
    sandboxEnv: { SANDBOX_TINY_MEDIA: '1' },
    env: { SYNC_WAIT_MS: '5000' },
  },
  'never',
);
let subject: Subject;
beforeAll(async () => {
  await installSchemathesis();
  const { keyId } = await gateway.newKey();
  subject = { ...(await gateway.newCaller()), keyId };
}, 600_000);

const callerKey = (): string => gateway.caller.key;
const callerDocument = '/api/v1/openapi.json';
const isStudioPath = (path: string): boolean => path.includes('/studio/');

/** Operations of a description: groups of about the same number run at the same time. */
const groups: [name: string, path: string, keyOf: () => string, operations: Operations][] = [
  [
    'Studio',
    callerDocument,
    callerKey,
    {
      options: ['--include-path-regex', '/studio/'],
      has: ({ scope, path }) => scope !== 'admin' && isStudioPath(path),
    },
  ],
  [
    'chat and accounts',
    callerDocument,
    callerKey,
    {
      options: ['--exclude-path-regex', '/studio/'],
      has: ({ scope, path }) => scope !== 'admin' && !isStudioPath(path),
    },
  ],
  [
    'operators',
    '/api/admin/v1/openapi.json',
    () => gateway.config.ADMIN_API_KEY,
    { options: [], has: ({ scope }) => scope === 'admin' },
  ],
];

describe('the OpenAPI description', () => {
  it.concurrent.each(groups)(
    'for %s matches the responses to generated requests: no 5xx, no undescribed response',
    async (_name, path, keyOf, operations) => {
      const seed = process.env['SEED'] ?? '1';
      const { failed, report } = await runSchemathesis({
        url: gateway.url + path,
        key: keyOf(),
        subject,
        operations,
        examples: Number(process.env['SCHEMATHESIS_EXAMPLES'] ?? 3),
        seed,
      });
      expect(failed, `seed ${seed}\n${report.slice(-20_000)}`).toBe(false);
      expect(report).toMatch(/\d+ generated/);
    },
    1_800_000,
  );

  it('leaves the ledger without a finding', async () => {
    expect(await gateway.database.audit()).toEqual([]);
  });
});
