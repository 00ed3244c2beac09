/**
 * `node dev/stack/bootstrap.mjs [--without-dev] <script> [arguments]`: installs missing or outdated
 * dependencies, then runs a script of this project with the pinned Node version. Without a script,
 * it only installs. `--without-dev` skips the development dependencies, which are half of all.
 * It never installs while processes are running from node_modules, because they would lose files
 * that they use. This is plain JavaScript for Node 18 and later, because it runs before anything
 * is installed.
 */
import { execFileSync, spawn } from 'node:child_process';
import {
  existsSync,
  linkSync,
  mkdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

const project = dirname(dirname(dirname(fileURLToPath(import.meta.url))));
const modules = join(project, 'node_modules');
const pinnedNode = join(modules, '.bin', process.platform === 'win32' ? 'node.cmd' : 'node');
const lockFile = join(project, '.cache', 'install.lock');

const startedAtMs = Date.now();
const oldestMajor = 18;
const stopSignals = ['SIGINT', 'SIGTERM', 'SIGHUP'];
const withoutDev = process.argv[2] === '--without-dev';

/** Returns `[path, entry]` for each package in a lockfile, without the project itself. */
function readPackages(file) {
  const { packages } = JSON.parse(readFileSync(join(project, file), 'utf8'));
  return Object.entries(packages).filter(([path]) => path.startsWith('node_modules/'));
}

/** Returns whether a package must be installed. Binaries for other platforms are optional. */
function isRequired({ dev, devOptional, optional }) {
  return optional !== true && !(withoutDev && (dev ?? devOptional) === true);
}

/**
 * Returns whether node_modules matches package-lock.json. npm writes a lockfile into node_modules at
 * the end of an installation, so an interrupted installation has none.
 */
function isInstalled() {
  try {
    const installed = new Map(readPackages('node_modules/.package-lock.json'));
    const locked = readPackages('package-lock.json');
    return (
      existsSync(pinnedNode) &&
      locked.every(([path, entry]) => {
        const found = installed.get(path);
        if (!found) return !isRequired(entry);
        return found.version === entry.version && found.integrity === entry.integrity;
      })
    );
  } catch {
    return false;
  }
}

function isAlive(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error.code === 'EPERM';
  }
}

/** Locks the installation of this project; waits while another process holds the lock. */
async function takeInstallLock() {
  mkdirSync(dirname(lockFile), { recursive: true });
  const draft = `${lockFile}.${process.pid}`;
  writeFileSync(draft, String(process.pid));
  try {
    for (let waited = false; ; waited = true) {
      try {
        linkSync(draft, lockFile);
        return;
      } catch (error) {
        if (error.code !== 'EEXIST') throw error;
      }
      const owner = readOwner();
      if (!isAlive(owner)) rmSync(lockFile, { force: true });
      else if (!waited) console.log(`Waiting for another installation (process ${owner})`);
      await sleep(200);
    }
  } finally {
    rmSync(draft, { force: true });
  }
}

function readOwner() {
  try {
    return Number(readFileSync(lockFile, 'utf8'));
  } catch {
    return 0; // The lock has just been released.
  }
}

/** Describes the progress of the installation by counting the packages that npm has unpacked. */
function describeProgress() {
  const required = readPackages('package-lock.json').filter(([, entry]) => isRequired(entry));
  const unpacked = required.filter(([path]) => existsSync(join(project, path, 'package.json')));
  return `${unpacked.length} of ${required.length} packages`;
}

/** Runs npm and returns its exit code. */
async function runNpm(...args) {
  const npm = process.env.npm_execpath;
  // Prefers the npm that started this process to the one on the PATH.
  const [command, first] = npm?.endsWith('.js') ? [process.execPath, [npm]] : ['npm', []];
  const scope = withoutDev ? '--omit=dev' : '--include=dev';
  const flags = [scope, '--include=optional', '--ignore-scripts=false'];
  const quiet = ['--no-audit', '--no-fund', '--loglevel=error'];
  const child = spawn(command, [...first, ...args, ...flags, ...quiet], {
    cwd: project,
    stdio: ['ignore', 'inherit', 'inherit'],
    shell: process.platform === 'win32',
  });
  const startedAt = Date.now();
  const progress = setInterval(() => {
    const seconds = Math.round((Date.now() - startedAt) / 1000);
    console.log(`  ${seconds} s, ${describeProgress()}`);
  }, 5_000);
  const interrupt = (signal) => {
    child.kill(signal);
    process.exit(1);
  };
  for (const signal of stopSignals) process.on(signal, interrupt);
  const code = await new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('exit', (exitCode) => resolve(exitCode ?? 1));
  }).finally(() => {
    clearInterval(progress);
    for (const signal of stopSignals) process.off(signal, interrupt);
  });
  if (code === 0) console.log(`Installed in ${((Date.now() - startedAt) / 1000).toFixed(1)} s`);
  return code;
}

/** Returns `[pid, parent, program]` for every process. The list is empty on Windows. */
function listProcesses() {
  if (process.platform === 'win32') return [];
  const output = execFileSync('ps', ['-A', '-o', 'pid=,ppid=,comm='], { encoding: 'utf8' });
  return output
    .split('\n')
    .map((line) => /^ *(\d+) +(\d+) +(.*)$/.exec(line))
    .filter((match) => match !== null)
    .map(([, pid, parent, command]) => [Number(pid), Number(parent), findProgram(pid, command)]);
}

/** Returns the path of a process's program. On Linux, `ps` truncates it, so /proc is read. */
function findProgram(pid, command) {
  try {
    return process.platform === 'linux' ? readlinkSync(`/proc/${pid}/exe`) : command;
  } catch {
    return command; // The process has ended, or belongs to another user.
  }
}

/**
 * Returns the ids of processes whose program is in node_modules (Node or Postgres), except this
 * process and its parents.
 */
function findRunningProcesses() {
  if (!existsSync(modules)) return [];
  const processes = listProcesses();
  const parents = new Map(processes.map(([pid, parent]) => [pid, parent]));
  const ours = new Set();
  for (let pid = process.pid; pid > 0 && !ours.has(pid); pid = parents.get(pid) ?? 0) ours.add(pid);
  const below = `${realpathSync(modules)}/`;
  return processes
    .filter(([pid, , program]) => program.startsWith(below) && !ours.has(pid))
    .map(([pid]) => pid);
}

async function ensureInstalled() {
  if (isInstalled()) return;
  await takeInstallLock();
  try {
    if (isInstalled()) return;
    const running = findRunningProcesses();
    if (running.length > 0) {
      throw new Error(
        'The dependencies must be updated, but they are in use: first stop the processes that run ' +
          `from node_modules, e.g. \`npm start\` (process ids ${running.join(', ')})`,
      );
    }
    console.log(
      'Installing the dependencies (this is the first start, or the lockfile has changed)',
    );
    // The lockfile names no registry, so npm looks up the URL of each package. `--prefer-offline`
    // uses the URLs in npm's cache, which takes a quarter less CPU.
    if ((await runNpm('ci', '--prefer-offline')) !== 0) {
      // `ci` fails if npm's cache does not know a version, or if the lockfile has no entries for the
      // binaries of other platforms because a registry mirror lacks them. `install` installs the
      // same locked versions in both cases.
      console.log('npm ci failed (see above); trying npm install without changing the lockfile');
      await runNpm('install', '--no-save');
    }
    if (!isInstalled()) throw new Error('npm did not install the versions in package-lock.json');
  } finally {
    rmSync(lockFile, { force: true });
  }
}

/** Runs the script with the pinned Node. Forwards signals to it and exits with its exit code. */
function run(args) {
  // The reported start time includes the installation.
  const env = { BOOTSTRAP_STARTED_AT_MS: String(startedAtMs), ...process.env };
  const child = spawn(pinnedNode, args, { stdio: 'inherit', env });
  const forward = (signal) => {
    // A terminal sends Ctrl-C to every process; forwarding it would send it twice.
    if (signal === 'SIGINT' && process.stdin.isTTY) return;
    child.kill(signal);
  };
  for (const signal of stopSignals) process.on(signal, forward);
  // npm starts this process through a shell, which may exit without forwarding its signal.
  const parent = process.ppid;
  const orphaned = setInterval(() => {
    if (process.ppid === parent) return;
    clearInterval(orphaned);
    child.kill('SIGTERM');
  }, 500);
  orphaned.unref();
  child.on('error', (error) => {
    console.error(`${pinnedNode} cannot be run: ${error.message}`);
    process.exit(1);
  });
  child.on('exit', (code, signal) => {
    if (signal === null) process.exit(code ?? 1);
    for (const name of stopSignals) process.off(name, forward);
    process.kill(process.pid, signal);
  });
}

try {
  if (Number(process.versions.node.split('.')[0]) < oldestMajor) {
    throw new Error(`Node ${process.versions.node} is too old: install Node 20 or later`);
  }
  await ensureInstalled();
  const args = process.argv.slice(withoutDev ? 3 : 2);
  if (args.length > 0) run(args);
} catch (error) {
  console.error(error instanceof Error ? error.message : String(error));
  process.exitCode = 1;
}
