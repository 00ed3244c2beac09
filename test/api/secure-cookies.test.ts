/** Session cookies behind a proxy that terminates TLS. */
import { expect, it } from 'vitest';
import { useGateway } from '../harness/gateway.ts';

// A separate gateway, because its public address determines the cookies.
const gateway = useGateway({ env: { PUBLIC_BASE_URL: 'https://gateway.example' } });

it('every session cookie is Secure when the public address is https', async () => {
  const sessions = [
    { path: '/api/v1/session', key: gateway.caller.key, body: {} },
    { path: '/api/admin/v1/session', key: gateway.config.ADMIN_API_KEY, body: { actor: 'olga' } },
  ];
  for (const { path, ...options } of sessions) {
    const { status, headers } = await gateway.call(path, options);
    const cookies = headers.getSetCookie();
    expect({ path, status, count: cookies.length }).toEqual({ path, status: 201, count: 1 });
    for (const cookie of cookies) expect(cookie).toMatch(/; secure(;|$)/i);
  }
});
