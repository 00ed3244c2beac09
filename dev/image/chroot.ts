/** Runs programs of an unpacked image as its user: its files read-only, /data and /tmp of their own. */
import { execFile } from 'node:child_process';
import { chown, mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { dieWithParent, launch, type Running } from '../stack/running.ts';
import type { BuiltImage } from './build.ts';

/** A program of the image. */
export interface ImageProgram {
  /** Of the process; its /data and /tmp are kept under it. */
  name: string;
  command: string[];
  /** Beside the image's own variables. */
  env: NodeJS.ProcessEnv;
}

/** Runs programs of an image; what they write is kept in `directory`. */
export function openChroot(image: BuiltImage, directory: string) {
  const { root, user, workingDirectory } = image;
  const [uid = 0, gid = 0] = user.split(':').map(Number);

  async function commandOf({ name, command }: ImageProgram): Promise<string[]> {
    const mounts: string[] = [];
    for (const place of ['data', 'tmp']) {
      const own = join(directory, name, place);
      // In turn: the second is in the folder that the first makes.
      await mkdir(own, { recursive: true });
      await chown(own, uid, gid);
      mounts.push(`mount --bind '${own}' '${root}/${place}'`);
    }
    const inside = `cd ${workingDirectory} && exec "$@"`;
    const script = [
      ...mounts,
      `mount --rbind /dev '${root}/dev'`,
      `mount -t proc proc '${root}/proc'`,
      `exec chroot --userspec=${user} '${root}' /bin/sh -c '${inside}' sh "$@"`,
    ].join(' && ');
    // Mounts of a namespace of its own end with its last process.
    const namespace = ['unshare', '--mount', '--propagation', 'private', '--'];
    return [...namespace, 'sh', '-c', script, 'sh', ...command];
  }

  const own = Object.fromEntries(
    image.env.map((pair) => [pair.slice(0, pair.indexOf('=')), pair.slice(pair.indexOf('=') + 1)]),
  );
  const logPath = (name: string): string => join(directory, `${name}.log`);
  return {
    /** Runs one to its end. @returns what it printed. @throws Error unless it exits with 0 */
    async run(program: ImageProgram): Promise<string> {
      const [command = '', ...args] = await commandOf(program);
      const env = { ...own, ...program.env };
      return (await promisify(execFile)(command, args, { env })).stdout;
    },
    /** Starts one that runs for long. */
    async start(program: ImageProgram): Promise<Running> {
      const [command = '', ...args] = [...dieWithParent('SIGTERM'), ...(await commandOf(program))];
      const env = { ...own, ...program.env };
      return launch({ command, args, env, logPath: logPath(program.name) });
    },
    /** A file of the host where a process has its /data. */
    dataFile: (name: string, file: string): string => join(directory, name, 'data', file),
    logPath,
  };
}

/** Root directory that commands run in. */
export type Chroot = ReturnType<typeof openChroot>;
