/** Content credentials by independent programs: c2pa (of the C2PA project) and exiftool. */
import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { installPython } from '../../dev/stack/tools.ts';

const run = promisify(execFile);
const program = fileURLToPath(new URL('sign-c2pa.py', import.meta.url));

/** Extensions of the certificates: C2PA requires those of a certificate for signing documents. */
const extensions = `[leaf]
basicConstraints=critical,CA:FALSE
keyUsage=critical,digitalSignature
extendedKeyUsage=critical,emailProtection
subjectKeyIdentifier=hash
authorityKeyIdentifier=keyid,issuer
[ca]
basicConstraints=critical,CA:TRUE
keyUsage=critical,keyCertSign
subjectKeyIdentifier=hash
`;

/** Creates a certificate in a folder; signs and checks files there. */
export async function openC2pa(folder: string) {
  const commands = await installPython('c2pa', ['c2pa-python==0.38.1']);
  const openssl = (...args: string[]) => run('openssl', args, { cwd: folder });
  await writeFile(join(folder, 'ext.cnf'), extensions);
  const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'];
  for (const name of ['ca', 'leaf']) {
    const subject = ['-subj', `/O=Test/CN=${name}`, '-keyout', `${name}.key`];
    await openssl('req', '-new', ...key, ...subject, '-out', `${name}.csr`);
    const signer =
      name === 'ca'
        ? ['-signkey', 'ca.key']
        : ['-CA', 'ca.pem', '-CAkey', 'ca.key', '-CAcreateserial'];
    const signed = ['-extfile', 'ext.cnf', '-extensions', name, '-days', '90'];
    await openssl(
      'x509',
      '-req',
      '-in',
      `${name}.csr`,
      ...signer,
      ...signed,
      '-out',
      `${name}.pem`,
    );
  }
  const chain = await run('cat', ['leaf.pem', 'ca.pem'], { cwd: folder });
  await writeFile(join(folder, 'chain.pem'), chain.stdout);
  const c2pa = async (command: 'sign' | 'check', files: Record<string, string>) => {
    const args = [program, command, folder, ...Object.entries(files).flat()];
    const { stdout } = await run(join(commands, 'python'), args);
    return stdout.trim().split('\n');
  };
  return {
    /** Writes `signed-<name>` beside each file; the values are content types. */
    sign: (files: Record<string, string>) => c2pa('sign', files),
    /** Returns `Valid`, `none` or an error for each file. */
    check: (files: Record<string, string>) => c2pa('check', files),
  };
}

/** Reads all metadata of a file with exiftool. Values are keyed by group and name. */
export async function readExif(path: string): Promise<Record<string, unknown>> {
  const { stdout } = await run('exiftool', ['-j', '-G1', '-a', '-ee', path]);
  const [metadata] = JSON.parse(stdout) as Record<string, unknown>[];
  return metadata ?? {};
}
