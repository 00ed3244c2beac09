/** Proxies to a Postgres server: one that cuts or silences connections, and a real PgBouncer. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, writeFileSync } from 'node:fs';
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import { join } from 'node:path';
import { freePort } from '../../dev/stack/free-port.ts';
import { newFolder } from './folders.ts';
import { until } from './until.ts';

/** Replaces host and port of a URL. */
const at = (url: string, port: number): string =>
  Object.assign(new URL(url), { host: `127.0.0.1:${port}` }).href;

/** Starts a proxy to a database, whose connections can be cut, silenced and sent elsewhere. */
export async function startPostgresProxy(databaseUrl: string) {
  let target = new URL(databaseUrl);
  const open = new Set<Socket>();
  /** Both ends of the connections that listen to notifications. */
  const listening = new Set<readonly [Socket, Socket]>();
  let server: Server;
  let held: { text: string; seen: () => void } | null = null;
  async function listen(port: number): Promise<number> {
    server = createServer((near) => {
      const far = connect(Number(target.port), target.hostname);
      near.on('data', (data) => {
        if (data.includes('LISTEN')) listening.add([near, far]);
        if (held === null || !data.includes(held.text)) return;
        far.unpipe(near).resume();
        held.seen();
        held = null;
      });
      for (const [socket, other] of [
        [near, far],
        [far, near],
      ] as const) {
        open.add(socket);
        socket.on('error', () => {}).on('close', () => other.destroy());
        socket.pipe(other);
      }
    });
    server.listen(port, '127.0.0.1');
    await once(server, 'listening');
    return (server.address() as AddressInfo).port;
  }
  const cut = (): void => {
    server.close();
    for (const socket of open) socket.destroy();
    open.clear();
  };
  const port = await listen(0);
  return {
    url: at(databaseUrl, port),
    cut,
    mend: () => listen(port),
    /** Drops all bytes of the listening connections, as a network does that has forgotten them. */
    silence(): void {
      for (const [near, far] of listening) {
        near.unpipe(far).resume();
        far.unpipe(near).resume();
      }
      listening.clear();
    },
    /** Drops the response to the next statement with this text; resolves once it was sent. */
    dropResponse: (text: string): Promise<void> =>
      new Promise((seen) => {
        held = { text, seen };
      }),
    /** Sends new connections to another server. */
    leadTo(url: string): void {
      target = new URL(url);
    },
    close: cut,
  };
}

const ignoredParameters =
  'ignore_startup_parameters = statement_timeout, idle_in_transaction_session_timeout, options';

/** Starts PgBouncer in transaction mode; every database of the server can be reached over it. */
export async function startPgBouncer(databaseUrl: string, ignored = ignoredParameters) {
  const { hostname, port: serverPort, username, password } = new URL(databaseUrl);
  const port = await freePort();
  const folder = newFolder();
  const file = join(folder, 'pgbouncer.ini');
  writeFileSync(
    file,
    `[databases]
* = host=${hostname} port=${serverPort} user=${username} password=${password}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 20
max_client_conn = 500
${ignored}
`,
  );
  const isRoot = process.getuid?.() === 0;
  chmodSync(folder, 0o755);
  // PgBouncer refuses to run as root.
  const child = spawn('pgbouncer', [...(isRoot ? ['-u', 'nobody'] : []), file], {
    stdio: 'ignore',
    env: { PATH: `${process.env['PATH']}:/usr/sbin` },
  });
  await once(child, 'spawn');
  await until(
    () =>
      new Promise<boolean>((resolve) => {
        const socket = connect(port, '127.0.0.1', () => resolve(socket.end() !== undefined));
        socket.on('error', () => resolve(false));
      }),
  );
  return {
    url: at(databaseUrl, port),
    async close(): Promise<void> {
      child.kill('SIGTERM');
      if (child.exitCode === null) await once(child, 'exit');
    },
  };
}
