/**
 * Runs each code block of README.md and docs/, in the order of its page, in one terminal for each
 * page. The `json` or `text` block after a block is its expected output; `…` matches any text.
 */
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parse as parseYaml } from 'yaml';
import { installMs, installPythonFrameworks, installAiSdk } from '../clients/installed.ts';
import { installPython } from '../../dev/stack/tools.ts';
import { startGateway, type TestGateway } from '../harness/gateway.ts';
import { drawDisc } from '../harness/media.ts';
import { readBlocks, documents, type Block } from './markdown.ts';
import { runInTerminal } from './terminal.ts';

/** Pages about incidents, except their overview. */
const runbooks = (await documents()).filter((file) => /^docs\/runbooks\/(?!README)/.test(file));

/** Blocks that cannot run here, with reasons. An entry without a block fails the last test. */
const notRun: { file: string; begins: string; reason: string }[] = [
  {
    file: 'README.md',
    begins: 'npm start',
    reason:
      'starts servers on fixed ports; test/dev/stack/local-stack.slow.test.ts runs the same program',
  },
  {
    file: 'docs/payload-encryption.md',
    begins: '# act',
    reason: 'acts on an incident; it was tried by hand',
  },
  {
    file: 'docs/payload-encryption.md',
    begins: 'temporal workflow show',
    reason:
      'needs a running job; test/workflows/payload-encryption.slow.test.ts runs the same command',
  },
  {
    file: 'docs/webhooks.md',
    begins: "import { createServer } from 'node:http';",
    reason: 'a server, which does not end; test/docs/webhook-receiver.test.ts runs it',
  },
  ...[
    "import { DatabaseSync } from 'node:sqlite'",
    'import { existsSync, readFileSync, renameSync, writeFileSync }',
  ].map((begins) => ({
    file: 'docs/usage-feed.md',
    begins,
    reason: 'test/docs/usage-feed.slow.test.ts runs it',
  })),
  ...[
    "import { readFile } from 'node:fs/promises';",
    "import { createBrowserClient } from 'studio-gateway-client';",
  ].map((begins) => ({
    file: 'docs/browser.md',
    begins,
    reason: 'test/docs/browser.slow.test.ts runs it',
  })),
  {
    file: 'docs/performance.md',
    begins: 'npm run dev -- bench',
    reason: 'takes minutes; test/dev/bench runs the program',
  },
  {
    file: 'docs/faults.md',
    begins: 'npm run audit',
    reason: 'needs the running local stack; test/ledger/audit.slow.test.ts runs the program',
  },
  {
    file: 'docs/faults.md',
    begins: 'npm run dev -- faults',
    reason: 'takes ten minutes; test/outages/crash-matrix.slow.test.ts runs a part',
  },
  {
    file: 'docs/faults.md',
    begins: 'npm run dev -- outages',
    reason: 'takes five minutes; test/outages/outages.slow.test.ts runs a part',
  },
  { file: 'docs/faults.md', begins: 'npm run dev -- chaos', reason: 'takes ten minutes' },
  { file: 'docs/deployment.md', begins: 'sh deploy/secrets.sh', reason: 'needs Docker' },
  {
    file: 'docs/deployment.md',
    begins: 'kubectl -n studio create secret',
    reason: 'needs a Kubernetes cluster; npm run dev -- check-chart renders the chart',
  },
  ...runbooks.map((file) => ({ file, begins: '', reason: 'test/runbooks rehearses it' })),
];

const root = fileURLToPath(new URL('../../', import.meta.url));
/** Installs the packages of a page's Python blocks; returns the path of their Python. */
async function installPackages(file: string): Promise<string> {
  if (file === 'docs/frameworks.md') return installPythonFrameworks();
  // `httpx` is for our own client.
  return join(await installPython('python-sdk', ['openai==3.54.0', 'httpx==0.28.1']), 'python');
}
/** Folder of this run; below the project, so that blocks find its packages. */
const place = join(root, '.cache', `snippets-${process.pid}`);

let gateway: TestGateway;

beforeAll(async () => {
  await mkdir(place, { recursive: true });
  [gateway] = await Promise.all([
    // The balance of `npm start`, because the documents show what remains of it.
    startGateway({ credits: 10_000, latencyMs: 20 }),
    installAiSdk(place),
  ]);
}, installMs);
afterAll(async () => {
  await gateway.close();
  await rm(place, { recursive: true, force: true });
});

/** Makes the folder of a page's blocks, with the files of `npm start` and a picture. */
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
  await writeFile(join(directory, 'photo.png'), await drawDisc(200, 150));
  // README.md sets these variables itself; the other pages expect them.
  const { caller, config } = gateway;
  const known =
    file === 'README.md' ? '' : `export KEY=${caller.key} ADMIN_API_KEY=${config.ADMIN_API_KEY}\n`;
  await writeFile(join(directory, 'env.sh'), known);
  return directory;
}

const interpreters: Record<string, (file: string) => Promise<string> | string> = {
  js: () => 'node',
  ts: () => 'node',
  python: installPackages,
};

/** Runs a block and returns its output; later blocks of the page have its exported variables. */
async function runBlock(block: Block, directory: string): Promise<string> {
  const text = block.text.replaceAll('http://127.0.0.1:4000', gateway.url);
  const interpreter = interpreters[block.language];
  let script = text;
  if (interpreter) {
    const extension = block.language === 'python' ? 'py' : 'mts';
    const path = join(directory, `line-${block.line}.${extension}`);
    await writeFile(path, text);
    script = `${await interpreter(block.file)} ${path}`;
  }
  const env = {
    DATA_DIR: join(directory, '.data'),
    PYTHONPATH: join(root, 'clients', 'python', 'src'),
  };
  const terminal = { directory, project: root, env };
  const whole = `. ./env.sh\n${script}\nexport -p > env.sh`;
  const { status, stdout, stderr } = await runInTerminal(whole, terminal);
  if (status !== 0) throw new Error(`exit status ${status}: ${stderr}${stdout}`);
  return stdout;
}

function expectPrinted(printed: string, expected: Block): void {
  const text = expected.text.replaceAll('http://127.0.0.1:4000', gateway.url);
  if (expected.language === 'text') expect(withGaps(printed.trim(), text)).toBe(text);
  else {
    const shape: unknown = JSON.parse(text);
    expect(withGaps(JSON.parse(printed), shape)).toEqual(shape);
  }
}

/** Returns the output with each text replaced by the expected text whose `…` match it. */
function withGaps(printed: unknown, expected: unknown): unknown {
  if (typeof expected === 'string' && typeof printed === 'string') {
    const parts = expected.split('…').map((part) => part.replaceAll(/[^\w\s]/g, String.raw`\$&`));
    return new RegExp(`^${parts.join('[^]*')}$`).test(printed) ? expected : printed;
  }
  if (Array.isArray(expected) && Array.isArray(printed)) {
    return printed.map((value, index) => withGaps(value, expected[index]));
  }
  if (!isObject(expected) || !isObject(printed)) return printed;
  return Object.fromEntries(
    Object.entries(printed).map(([name, value]) => [name, withGaps(value, expected[name])]),
  );
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}

const runnable = new Set(['sh', 'bash', 'js', 'ts', 'python']);
/** Languages of blocks that are not run. */
const shown = new Set(['', 'json', 'html', 'yaml', 'text', 'mermaid', 'sql']);
const pages = await Promise.all(
  (await documents()).map(async (file) => [file, await readBlocks(file)] as const),
);
const findReason = (block: Block): string | undefined =>
  notRun.find(({ file, begins }) => block.file === file && block.text.startsWith(begins))?.reason;

describe.each(pages.filter(([, blocks]) => blocks.some(({ language }) => runnable.has(language))))(
  '%s',
  (file, blocks) => {
    let directory: string;
    const hasPython = blocks.some(({ language }) => language === 'python');
    beforeAll(async () => {
      directory = await terminalFor(file);
      if (hasPython) await installPackages(file);
    }, installMs);

    for (const block of blocks.filter(({ language }) => runnable.has(language))) {
      const title = `line ${block.line}: ${block.language}, ${block.text.split('\n')[0]}`;
      const reason = findReason(block);
      if (reason !== undefined) {
        // The report of the tests lists it as skipped, with the reason.
        it.skip(`${title} (${reason})`);
        continue;
      }
      it(title, async () => {
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
    await gateway.api.services.chat.waitUntilIdle();
    // A page may start a job without waiting for its end.
    await expect
      .poll(() => gateway.database.query(`SELECT id FROM reservation WHERE state = 'reserved'`))
      .toEqual([]);
    await gateway.expectSettled();
  });
});
