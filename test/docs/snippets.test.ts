/**
 * Runs every block of README.md and docs/ that a reader can copy, in the order of its page, in one
 * terminal for each page. The `json` or `text` block after a block is its expected output; `…`
 * matches any text.
 */
import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parse as parseYaml } from 'yaml';
import { installing, installMs, installTypescriptClient } from '../clients/installed.ts';
import { startGateway, type TestGateway } from '../harness/gateway.ts';
import { discPicture } from '../harness/media.ts';
import { blocksOf, documents, type Block } from './markdown.ts';
import { runInTerminal } from './terminal.ts';

const run = promisify(execFile);

/** Pages about incidents; the first page of them is run here. */
const runbooks = (await documents()).filter((file) => /^docs\/runbooks\/(?!README)/.test(file));

/** What cannot be run here, each with its reason. The list may only shrink: a stale entry fails. */
const notRun: { file: string; begins: string; reason: string }[] = [
  {
    file: 'README.md',
    begins: 'npm start',
    reason: 'starts servers on fixed ports; test/stack/local-stack.test.ts runs the same program',
  },
  {
    file: 'docs/payload-encryption.md',
    begins: '# act',
    reason: 'acts on an incident; it was tried by hand',
  },
  {
    file: 'docs/payload-encryption.md',
    begins: 'temporal workflow show',
    reason: 'needs a running job; test/workflows/payload-encryption.test.ts runs the same command',
  },
  {
    file: 'docs/webhooks.md',
    begins: "import { createServer } from 'node:http';",
    reason: 'a server, which does not end; test/api/webhook-receiver-doc.test.ts runs it',
  },
  {
    file: 'docs/performance.md',
    begins: 'npm run dev -- bench',
    reason: 'takes minutes; test/bench runs the program',
  },
  {
    file: 'docs/faults.md',
    begins: 'npm run audit',
    reason: 'needs the running local stack; test/ledger/audit.test.ts runs the program',
  },
  {
    file: 'docs/faults.md',
    begins: 'npm run dev -- faults',
    reason: 'takes ten minutes; test/faults/slice.test.ts runs a part',
  },
  {
    file: 'docs/faults.md',
    begins: 'npm run dev -- outages',
    reason: 'takes five minutes; test/faults/outages.test.ts runs a part',
  },
  { file: 'docs/faults.md', begins: 'npm run dev -- chaos', reason: 'takes ten minutes' },
  {
    file: 'docs/deployment.md',
    begins: 'sh deploy/secrets.sh',
    reason: 'needs Docker',
  },
  {
    file: 'docs/deployment.md',
    begins: 'kubectl -n studio create secret',
    reason: 'needs a Kubernetes cluster; npm run dev -- check-chart renders the chart',
  },
  ...runbooks.map((file) => ({ file, begins: '', reason: 'test/runbooks rehearses it' })),
];

const root = fileURLToPath(new URL('../../', import.meta.url));
/** Packages of Python's blocks by page: the OpenAI SDK, and `httpx` for our own client. */
const pythonPackages = ['openai==3.54.0', 'httpx==0.28.1'];
/** Frameworks that need an older OpenAI SDK. */
const frameworkPackages: Record<string, string[]> = {
  'docs/frameworks.md': ['litellm==1.106.2', 'instructor==1.17.0', 'openai==2.54.0'],
};
const pythonOf = (packages: readonly string[]): string =>
  join(root, '.cache', `python-${packages.join('-').replaceAll('==', '-')}`);
/** Below the project, so that its packages are found; its name is not in anybody's way. */
const place = join(root, '.cache', `snippets-${process.pid}`);

let gateway: TestGateway;
/** Why the blocks with our client for TypeScript cannot be run; null: they can. */
let withoutClient: string | null = null;

beforeAll(async () => {
  await mkdir(place, { recursive: true });
  const installingClient = installing(() => installTypescriptClient(place));
  [gateway, { missing: withoutClient }] = await Promise.all([
    // As `npm start` begins: the documents tell what is left of it.
    startGateway({ credits: 10_000, latencyMs: 20 }),
    installingClient,
  ]);
}, installMs);
afterAll(async () => {
  await gateway.close();
  await rm(place, { recursive: true, force: true });
});

/** Installs packages of Python. Returns the reason why they cannot be installed; without a network, only CI fails. */
async function installPython(packages: readonly string[]): Promise<string | null> {
  const python = pythonOf(packages);
  if (existsSync(join(python, 'complete'))) return null;
  try {
    await run('python3', ['-m', 'venv', python]);
    const pip = join(python, 'bin', 'pip');
    await run(pip, ['install', '--quiet', '--retries', '1', ...packages]);
    await writeFile(join(python, 'complete'), '');
    return null;
  } catch (error) {
    if (process.env['CI']) throw error;
    return `${packages.join(' and ')} cannot be installed: ${String(error).slice(0, 200)}`;
  }
}

/** Where a page's blocks run: what `npm start` leaves behind, and a picture of the reader's own. */
async function terminalFor(file: string): Promise<string> {
  const directory = join(place, file.replaceAll(/\W/g, '-'));
  await mkdir(join(directory, '.data'), { recursive: true });
  const stack = {
    apiUrl: gateway.url,
    apiKey: gateway.caller.key,
    adminKey: gateway.config.ADMIN_API_KEY,
    organizationId: gateway.caller.organizationId,
  };
  await writeFile(join(directory, '.data', 'stack.json'), JSON.stringify(stack));
  await writeFile(join(directory, 'photo.png'), await discPicture(200, 150));
  // README.md tells how to get it; the other pages take it as read.
  const { caller, config } = gateway;
  const known =
    file === 'README.md' ? '' : `export KEY=${caller.key} ADMIN_API_KEY=${config.ADMIN_API_KEY}\n`;
  await writeFile(join(directory, 'env.sh'), known);
  return directory;
}

const packagesOf = (file: string): readonly string[] => frameworkPackages[file] ?? pythonPackages;
const commands: Record<string, (path: string, file: string) => string> = {
  js: (path) => `node ${path}`,
  ts: (path) => `node ${path}`,
  python: (path, file) => `${pythonOf(packagesOf(file))}/bin/python ${path}`,
};

/** Runs a block as its reader would; exported variables live on, as in a terminal. */
async function runBlock(block: Block, directory: string): Promise<string> {
  const text = block.text.replaceAll('http://127.0.0.1:4000', gateway.url);
  const program = commands[block.language];
  let script = text;
  if (program) {
    const path = join(
      directory,
      `line-${block.line}.${block.language === 'python' ? 'py' : 'mts'}`,
    );
    await writeFile(path, text);
    script = program(path, block.file);
  }
  const { status, stdout, stderr } = await runInTerminal(
    `. ./env.sh\n${script}\nexport -p > env.sh`,
    {
      directory,
      project: root,
      env: {
        DATA_DIR: join(directory, '.data'),
        PYTHONPATH: join(root, 'clients', 'python', 'src'),
      },
    },
  );
  if (status !== 0) throw new Error(`exit status ${status}: ${stderr}${stdout}`);
  return stdout;
}

function expectPrinted(printed: string, said: Block): void {
  const text = said.text.replaceAll('http://127.0.0.1:4000', gateway.url);
  if (said.language === 'text') expect(withGaps(printed.trim(), text)).toBe(text);
  else {
    const shape: unknown = JSON.parse(text);
    expect(withGaps(JSON.parse(printed), shape)).toEqual(shape);
  }
}

/** What was printed, with `…` where the document leaves something out. */
function withGaps(printed: unknown, said: unknown): unknown {
  if (typeof said === 'string' && typeof printed === 'string') {
    const parts = said.split('…').map((part) => part.replaceAll(/[^\w\s]/g, String.raw`\$&`));
    return new RegExp(`^${parts.join('[^]*')}$`).test(printed) ? said : printed;
  }
  if (Array.isArray(said) && Array.isArray(printed)) {
    return printed.map((value, index) => withGaps(value, said[index]));
  }
  if (!isObject(said) || !isObject(printed)) return printed;
  return Object.fromEntries(
    Object.entries(printed).map(([name, value]) => [name, withGaps(value, said[name])]),
  );
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}

const runnable = new Set(['sh', 'bash', 'js', 'ts', 'python']);
/** What shows and does not run. */
const shown = new Set(['', 'json', 'yaml', 'text', 'mermaid', 'sql']);
const pages = await Promise.all(
  (await documents()).map(async (file) => [file, await blocksOf(file)] as const),
);
const reasonOf = (block: Block): string | undefined =>
  notRun.find(({ file, begins }) => block.file === file && block.text.startsWith(begins))?.reason;

describe.each(pages.filter(([, blocks]) => blocks.some(({ language }) => runnable.has(language))))(
  '%s',
  (file, blocks) => {
    let directory: string;
    /** Reason why Python's blocks cannot be run; null if they can. */
    let withoutPython: string | null = null;
    const hasPython = blocks.some(({ language }) => language === 'python');
    beforeAll(async () => {
      directory = await terminalFor(file);
      if (hasPython) withoutPython = await installPython(packagesOf(file));
    }, installMs);

    for (const block of blocks.filter(({ language }) => runnable.has(language))) {
      const title = `line ${block.line}: ${block.language}, ${block.text.split('\n')[0]}`;
      const reason = reasonOf(block);
      if (reason !== undefined) {
        // Shown with its reason among the skipped, so that nobody believes that it ran.
        it.skip(`${title} (${reason})`);
        continue;
      }
      it(title, async ({ skip }) => {
        if (block.language === 'python' && withoutPython !== null) skip(withoutPython);
        const usesClient = block.text.includes("'studio-gateway-client'");
        if (usesClient && withoutClient !== null) skip(withoutClient);
        const printed = await runBlock(block, directory);
        if (block.prints) expectPrinted(printed, block.prints);
      });
    }
  },
);

describe('the documents', () => {
  const blocks = pages.flatMap(([, ofPage]) => ofPage);

  it('mark each block with a language that is run or shown', () => {
    const unknown = blocks.filter(
      ({ language }) => !runnable.has(language) && !shown.has(language),
    );
    expect(unknown).toEqual([]);
  });

  it('contain only valid JSON and YAML', () => {
    const readers = new Map<string, (text: string) => unknown>([
      ['json', JSON.parse],
      ['yaml', parseYaml],
    ]);
    for (const { file, line, language, text } of blocks) {
      expect(() => readers.get(language)?.(text), `${file}:${line}`).not.toThrow();
    }
  });

  it('contain every block that is listed as not run', () => {
    const stale = notRun.filter(
      ({ file, begins }) =>
        !blocks.some((block) => block.file === file && block.text.startsWith(begins)),
    );
    expect(stale).toEqual([]);
  });

  it('leave the ledger without a finding and without an open reservation', async () => {
    await gateway.api.services.chat.drained();
    // A page may leave a job behind that nobody waits for.
    await expect
      .poll(() => gateway.database.query(`SELECT id FROM reservation WHERE state = 'reserved'`))
      .toEqual([]);
    await gateway.expectSettled();
  });
});
