/**
 * Runs a script of this project with the pinned Node version, after installing missing or outdated
 * dependencies: `node dev/stack/bootstrap.mjs [--without-dev] <script> [arguments]`; without a
 * script it only installs. `--without-dev` installs the dependencies for running only, which are
 * half of all. Nothing is installed while processes run from node_modules, because they would lose
 * mapped files. Plain JavaScript for Node 18 and later, because it runs before anything is
 * installed.
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

/** Returns the packages of a lockfile by path, without the project itself. */
function readPackages(file) {
  const { packages } = JSON.parse(readFileSync(join(project, file), 'utf8'));
  return Object.entries(packages).filter(([path]) => path.startsWith('node_modules/'));
}

/**
 * Returns true if a package is for this platform; binaries of other platforms are optional and
 * absent.
 */
function isWanted({ dev, devOptional, optional }) {
  return optional !== true && !(withoutDev && (dev ?? devOptional) === true);
}

/**
 * Returns true if node_modules agrees with package-lock.json. npm writes a lockfile into
 * node_modules at the end of an installation, so an interrupted installation has none.
 */
function isInstalled() {
  try {
    const installed = new Map(readPackages('node_modules/.package-lock.json'));
    const wanted = readPackages('package-lock.json');
    return (
      existsSync(pinnedNode) &&
      wanted.every(([path, entry]) => {
        const found = installed.get(path);
        if (!found) return !isWanted(entry);
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

/** Runs one installation of the project at a time; other processes wait for it. */
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
    return 0; // Released in the meantime.
  }
}

/** Prints the progress of the installation: npm first creates all folders, then fills them. */
function tellProgress() {
  const wanted = readPackages('package-lock.json').filter(([, entry]) => isWanted(entry));
  const begun = wanted.filter(([path]) => existsSync(join(project, path, 'package.json')));
  return `${begun.length} of ${wanted.length} packages`;
}

/** Runs npm and resolves with its exit code. */
async function runNpm(...args) {
  const npm = process.env.npm_execpath;
  // Script of the npm that started this process, else the npm on the PATH.
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
    console.log(`  ${seconds} s, ${tellProgress()}`);
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

/**
 * Returns every process with its parent and program, `[pid, parent, path]`; empty if the system
 * does not tell.
 */
function listProcesses() {
  if (process.platform === 'win32') return [];
  const told = execFileSync('ps', ['-A', '-o', 'pid=,ppid=,comm='], { encoding: 'utf8' });
  return told
    .split('\n')
    .map((line) => /^ *(\d+) +(\d+) +(.*)$/.exec(line))
    .filter((match) => match !== null)
    .map(([, pid, parent, command]) => [Number(pid), Number(parent), programOf(pid, command)]);
}

/** Linux truncates the command, but has a link to the program. */
function programOf(pid, command) {
  try {
    return process.platform === 'linux' ? readlinkSync(`/proc/${pid}/exe`) : command;
  } catch {
    return command; // Ended in the meantime, or somebody else's.
  }
}

/**
 * Returns the processes that run from node_modules (Node and Postgres are there), except this one
 * and its parents.
 */
function findUsers() {
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
    const users = findUsers();
    if (users.length > 0) {
      throw new Error(
        'The dependencies are not what this needs, and they are in use: end what runs from ' +
          `node_modules first, e.g. \`npm start\` (processes ${users.join(', ')})`,
      );
    }
    console.log('Installing the dependencies (first start, or the lockfile changed)');
    // npm looks up the address of each package, because the lockfile names no registry. Addresses in
    // npm's cache are used without a request, which takes a quarter less CPU.
    if ((await runNpm('ci', '--prefer-offline')) !== 0) {
      // The cache may be older than a version, and `ci` rejects a lockfile without entries for the
      // binaries of other platforms, which npm writes if a registry mirror lacks them. `install`
      // installs the same locked versions.
      console.log('npm ci failed (see above): trying npm install, without changing the lockfile');
      await runNpm('install', '--no-save');
    }
    if (!isInstalled()) throw new Error('npm did not install what package-lock.json says');
  } finally {
    rmSync(lockFile, { force: true });
  }
}

/** Runs the script with the pinned Node, and passes on its signals and its exit code. */
function run(args) {
  // The reported start time includes the installation.
  const env = { BOOTSTRAP_STARTED_AT_MS: String(startedAtMs), ...process.env };
  const child = spawn(pinnedNode, args, { stdio: 'inherit', env });
  const forward = (signal) => {
    // A terminal sends Ctrl-C to every process; passing it on would send it twice.
    if (signal === 'SIGINT' && process.stdin.isTTY) return;
    child.kill(signal);
  };
  for (const signal of stopSignals) process.on(signal, forward);
  // npm starts this process through a shell, which may exit without passing its signal on.
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
