/** Certificates by openssl, and fronts with TLS before servers that have none. */
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import { join } from 'node:path';
import { TLSSocket } from 'node:tls';
import { newFolder } from './folders.ts';

const openssl = (...args: string[]) => execFileSync('openssl', args, { stdio: 'pipe' });

/** Creates an authority, with a certificate for 127.0.0.1 and client certificates that it issues. */
export function createAuthority() {
  const folder = newFolder();
  const path = (name: string): string => join(folder, name);
  const newKey = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'];
  openssl(
    'req',
    '-x509',
    ...newKey,
    '-keyout',
    path('ca.key'),
    '-out',
    path('ca.pem'),
    '-subj',
    '/CN=Test CA',
  );
  /** Issues a certificate under a new name, and moves both files to `name`. */
  function issue(name: string, { serial, days = 30 }: { serial: number; days?: number }): void {
    const files = ['-keyout', path('new.key'), '-out', path('new.csr')];
    openssl('req', ...newKey, ...files, '-subj', `/CN=${name}`);
    writeFileSync(path('new.ext'), 'subjectAltName=IP:127.0.0.1,DNS:localhost');
    openssl(
      ...['x509', '-req', '-in', path('new.csr'), '-CA', path('ca.pem'), '-CAkey', path('ca.key')],
      ...['-set_serial', String(serial), '-days', String(days)],
      ...['-extfile', path('new.ext'), '-out', path('new.crt')],
    );
    renameSync(path('new.key'), path(`${name}.key`));
    renameSync(path('new.crt'), path(`${name}.crt`));
  }
  issue('server', { serial: 1 });
  return { path, issue };
}

/**
 * Starts a front that asks for client certificates before a server without TLS. With `postgres`, TLS
 * begins after the request for it of Postgres' protocol.
 */
export async function startTlsFront(
  authority: Pick<ReturnType<typeof createAuthority>, 'path'>,
  { target, postgres = false }: { target: { host: string; port: number }; postgres?: boolean },
) {
  /** Serial numbers of the certificates of all connections. */
  const serials: number[] = [];
  const open = new Set<Socket>();
  let refused: number | null = null;
  const secure = (raw: Socket): void => {
    const near = new TLSSocket(raw, {
      isServer: true,
      requestCert: true,
      rejectUnauthorized: true,
      ALPNProtocols: ['h2'],
      cert: readFileSync(authority.path('server.crt')),
      key: readFileSync(authority.path('server.key')),
      ca: readFileSync(authority.path('ca.pem')),
    });
    near
      .on('error', () => {})
      .once('secure', () => {
        const serial = Number.parseInt(near.getPeerCertificate().serialNumber, 16);
        if (serial === refused) return void near.destroy();
        serials.push(serial);
        const far = connect(target.port, target.host);
        far.on('error', () => {}).on('close', () => near.destroy());
        near.on('close', () => far.destroy());
        near.pipe(far).pipe(near);
      });
  };
  const server = createServer((raw) => {
    open.add(raw);
    raw.on('error', () => {}).on('close', () => open.delete(raw));
    if (!postgres) return secure(raw);
    raw.once('data', () => {
      raw.write('S');
      secure(raw);
    });
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    serials,
    /** Cuts all connections, and refuses further ones with this certificate. */
    refuse(serial: number): void {
      refused = serial;
      for (const socket of open) socket.destroy();
    },
    close(): void {
      server.close();
      for (const socket of open) socket.destroy();
    },
  };
}
