import { spawnSync } from 'node:child_process';
import { readFileSync, statSync } from 'node:fs';
import { commandSucceeds } from './running.ts';

/** Account for Postgres, whose programs refuse to run as root. */
export interface PostgresAccount {
  /** Command prefix of the program and its arguments. */
  prefix: string[];
  /** User and group that must own the data directory; null: the current user. */
  owner: { uid: number; gid: number } | null;
}

/**
 * Chooses the account that runs Postgres. An ordinary user needs nothing. As root, another user id
 * could not read a clone below a closed home directory (`/root` has mode 0700), so there are two
 * ways, tried in this order:
 * 1. a user namespace that shows root as an ordinary user without capabilities; no file changes its
 * owner. Containers often forbid it.
 * 2. a system user that keeps one capability, to pass file permissions.
 * @throws Error if this is root and neither way works
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
      'Postgres refuses to run as root, and neither `unshare` nor `setpriv` (util-linux) works here. ' +
        'Run this as an ordinary user.',
    );
  }
  return chosen;
}

/** Changes the owner of a data directory to the account, if an earlier run used another one. */
export function takeOwnership(dataDir: string, { owner }: PostgresAccount): void {
  if (owner === null || statSync(dataDir).uid === owner.uid) return;
  const { status, stderr } = spawnSync('chown', ['-R', `${owner.uid}:${owner.gid}`, dataDir]);
  if (status !== 0) throw new Error(`chown ${dataDir}: ${stderr.toString().trim()}`);
}

/** Existing system user, because Postgres looks up its own user name. */
function unprivilegedUser(): { uid: number; gid: number } {
  const users = readFileSync('/etc/passwd', 'utf8')
    .split('\n')
    .map((line) => line.split(':'));
  for (const wanted of ['postgres', 'nobody', 'daemon']) {
    const [, , uid, gid] = users.find(([name]) => name === wanted) ?? [];
    if (Number(uid) > 0 && Number(gid) > 0) return { uid: Number(uid), gid: Number(gid) };
  }
  throw new Error('/etc/passwd has none of the users postgres, nobody, daemon');
}
