import { spawnSync } from 'node:child_process';
import { readFileSync, statSync } from 'node:fs';
import { commandSucceeds } from './running.ts';

/** How to run Postgres programs, which refuse to run as root. */
export interface PostgresAccount {
  /** What to put before the program and its arguments. */
  prefix: string[];
  /** The user and group that must own the data directory, or null for the current user. */
  owner: { uid: number; gid: number } | null;
}

/**
 * Chooses the account Postgres runs under. An ordinary user needs nothing. For root, changing to
 * another user id would lock Postgres out of a clone under a closed home directory (`/root` has
 * mode 0700), so there are two ways that keep access, tried in this order:
 * 1. a user namespace that shows root as an ordinary user and drops every capability;
 *    nothing changes owner. Containers often forbid it.
 * 2. a system user that keeps one capability, to pass file permissions.
 * @throws Error when this is root and neither way works here.
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
        // Without this bit access(2) forgets the capability, and initdb asks access(2) first.
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

/** Gives a data directory to the account, where an earlier run left it to another one. */
export function takeOwnership(dataDir: string, { owner }: PostgresAccount): void {
  if (owner === null || statSync(dataDir).uid === owner.uid) return;
  const { status, stderr } = spawnSync('chown', ['-R', `${owner.uid}:${owner.gid}`, dataDir]);
  if (status !== 0) throw new Error(`chown ${dataDir}: ${stderr.toString().trim()}`);
}

/** A user that the system already has: Postgres asks the user database for its own name. */
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
