import { spawnSync } from 'node:child_process';
import { readFileSync, statSync } from 'node:fs';
import { commandSucceeds } from './running.ts';

/** User account that runs Postgres, because Postgres does not run as root. */
export interface PostgresAccount {
  /** Command and arguments to put before the Postgres program. */
  prefix: string[];
  /** User and group that must own the data directory. Null for the current user. */
  owner: { uid: number; gid: number } | null;
}

/**
 * Chooses the account that runs Postgres. An ordinary user runs it itself. If this process is root,
 * simply switching to another user may fail, because that user cannot read a clone in `/root`
 * (mode 0700). Root therefore tries two ways, in this order:
 * 1. a user namespace in which root appears as an ordinary user without capabilities. No file
 * changes its owner, but containers often forbid namespaces.
 * 2. a system user that keeps the capability to bypass file permissions.
 * @throws Error if this process is root and neither way works
 */
export function choosePostgresAccount(paths: {
  program: string;
  dataDir: string;
}): PostgresAccount {
  if (process.getuid?.() !== 0) return { prefix: [], owner: null };
  const { uid, gid } = unprivilegedUser();
  const candidates: PostgresAccount[] = [
    {
      prefix: ['unshare', `--map-user=${uid}`, `--map-group=${gid}`, '--'],
      owner: { uid: 0, gid: 0 },
    },
    {
      prefix: [
        'setpriv',
        `--reuid=${uid}`,
        `--regid=${gid}`,
        '--clear-groups',
        // Without this bit, access(2) ignores the capability, and initdb calls access(2) first.
        '--securebits=+no_setuid_fixup',
        '--inh-caps=+dac_override',
        '--ambient-caps=+dac_override',
        '--',
      ],
      owner: { uid, gid },
    },
  ];
  const chosen = candidates.find(
    ({ prefix }) =>
      commandSucceeds([...prefix, 'test', '-x', paths.program]) &&
      commandSucceeds([...prefix, 'test', '-w', paths.dataDir]),
  );
  if (!chosen) {
    throw new Error(
      'Postgres does not run as root, and neither `unshare` nor `setpriv` (util-linux) works here. ' +
        'Run this command as an ordinary user.',
    );
  }
  return chosen;
}

/** Makes the account the owner of a data directory, if an earlier start used another account. */
export function takeOwnership(dataDir: string, { owner }: PostgresAccount): void {
  if (owner === null || statSync(dataDir).uid === owner.uid) return;
  const { status, stderr } = spawnSync('chown', ['-R', `${owner.uid}:${owner.gid}`, dataDir]);
  if (status !== 0) throw new Error(`chown ${dataDir}: ${stderr.toString().trim()}`);
}

/** Returns an existing system user; Postgres needs one, because it looks up its user name. */
function unprivilegedUser(): { uid: number; gid: number } {
  const users = readFileSync('/etc/passwd', 'utf8')
    .split('\n')
    .map((line) => line.split(':'));
  for (const candidate of ['postgres', 'nobody', 'daemon']) {
    const [, , uid, gid] = users.find(([name]) => name === candidate) ?? [];
    if (Number(uid) > 0 && Number(gid) > 0) return { uid: Number(uid), gid: Number(gid) };
  }
  throw new Error('/etc/passwd has none of the users postgres, nobody, daemon');
}
