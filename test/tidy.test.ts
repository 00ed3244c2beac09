/** Checks the project’s own rules of style (docs/architecture.md). */
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { providerDefinitions } from '../providers/provider-registry.ts';
import { updateArchitecture } from '../dev/docs/draw.ts';
import { graph } from '../oxlint.config.ts';
import { errorTable } from '../domain/errors.ts';
import { capabilities } from '../studio/capabilities/capability-registry.ts';
import { faults } from './faults/planted-faults.ts';
import { callerEndpoints, operatorEndpoints } from './harness/endpoints.ts';

const root = fileURLToPath(new URL('../', import.meta.url));
const files = execFileSync('git', ['ls-files', '-co', '--exclude-standard'], {
  cwd: root,
  encoding: 'utf8',
})
  .split('\n')
  .filter((file) => file !== '' && existsSync(root + file));
const code = files.filter((file) => /\.(tsx?|mjs)$/.test(file));
const read = (file: string): string => readFileSync(root + file, 'utf8');
const isIn = (file: string, folders: readonly string[]): boolean =>
  folders.some((folder) => file.startsWith(`${folder}/`));
/** Folders of the product, from the import graph: all but the tools of development. */
const rooms = Object.keys(graph).filter((folder) => folder.split('/')[0] !== 'dev');
/** Folders that run in the gateway's own processes. */
const inProcess = rooms.filter((folder) => folder !== 'clients');

describe('names in the repository', () => {
  it('describe the contents of folders and files', () => {
    const empty = /(^|\/)(utils?|helpers?|common|shared|misc|lib|types)(\/|\.ts$)/;
    expect(files.filter((file) => empty.test(file))).toEqual([]);
  });

  it('are the terms of docs/architecture.md, not private words', () => {
    const ownWords =
      /\b(ears?|desks?|patience|purses?|deeds?|heeded|lately|foreseen|TODO|FIXME|XXX)\b/i;
    const inNames = /[a-z](Desk|Patience|Purse|Deed|Lately|Foreseen)\b|\b(purse|deed)[A-Z]/;
    const product = files.filter((file) => isIn(file, rooms) && /\.(tsx?|sql)$/.test(file));
    expect(product.length).toBeGreaterThan(200);
    const isOwn = (text: string): boolean => ownWords.test(text) || inNames.test(text);
    expect(product.filter((file) => isOwn(read(file)))).toEqual([]);
  });
});

it('the planted faults replace texts that are in their files once, and name test files', () => {
  const stale = faults.filter(
    ({ file, original, tests }) =>
      read(file).split(original).length !== 2 || !tests.every((test) => files.includes(test)),
  );
  expect(stale.map(({ name }) => name)).toEqual([]);
});

describe('the code', () => {
  it('switches off a rule only with a reason', () => {
    const silent =
      /(oxlint|eslint)-disable[^\n]*?(?<! -- [^\n]{5,})$|@ts-(ignore|nocheck|expect-error)/m;
    const others = code.filter((file) => file !== 'test/tidy.test.ts');
    expect(others.filter((file) => silent.test(read(file)))).toEqual([]);
  });

  it('reads the environment in one place per program', () => {
    const product = code.filter((file) => isIn(file, inProcess));
    const readers = product.filter((file) => read(file).includes('process.env'));
    expect(readers).toEqual(['platform/config.ts', 'platform/migrate.ts']);
  });

  it('builds no SQL from strings', () => {
    // LISTEN takes no parameters, so the name of its channel is escaped.
    const unsafe = /sql\.unsafe|\.query\(\s*`(?!LISTEN \$\{escapeIdentifier\()[^`]*\$\{/;
    const product = code.filter((file) => isIn(file, inProcess));
    expect(product.filter((file) => unsafe.test(read(file)))).toEqual([]);
  });

  it('keeps no state in modules that all workflows of a process share', () => {
    // worker/bundle.ts preloads them, so a workflow would see the state of another, but not on replay.
    const shared = code.filter((file) => isIn(file, ['workflows', 'domain']));
    expect(shared.filter((file) => /^(export )?(let|var) /m.test(read(file)))).toEqual([]);
  });

  it('gives every activity a time limit', () => {
    const calls = code
      .filter((file) => file.startsWith('workflows/'))
      .flatMap((file) => findCalls(read(file), /proxy(?:Local)?Activities</g));
    expect(calls.length).toBeGreaterThanOrEqual(5);
    expect(calls.filter((options) => !options.includes('scheduleToCloseTimeout'))).toEqual([]);
    // A call whose only limit is the one beside it has none.
    const beside = `proxyActivities<A>({ retry: {} }); proxyActivities<A>({ scheduleToCloseTimeout: 1 })`;
    expect(findCalls(beside, /proxyActivities</g)).toEqual([
      '({ retry: {} })',
      '({ scheduleToCloseTimeout: 1 })',
    ]);
  });
});

/** Returns the arguments of calls, with their parentheses. */
function findCalls(source: string, name: RegExp): string[] {
  return [...source.matchAll(name)].map(({ index }) => {
    const start = source.indexOf('(', source.indexOf('>', index));
    let depth = 0;
    for (let end = start; end < source.length; end += 1) {
      depth += Number(source[end] === '(') - Number(source[end] === ')');
      if (depth === 0) return source.slice(start, end + 1);
    }
    return '';
  });
}

const tests = code.filter((file) => /^test\/.*(?:\.test|-attempts)\.ts$/.test(file)).map(read);

describe('every capability', () => {
  it.each(capabilities)('$type has a file named after its path, and a test', ({ path }) => {
    const name = path.replace('/studio/', '').replaceAll('/', '-');
    expect(files).toContain(`studio/capabilities/${name}.ts`);
    expect(tests.some((text) => text.includes(path))).toBe(true);
  });

  it('has a type and a path of its own', () => {
    expect(new Set(capabilities.map(({ type }) => type)).size).toBe(capabilities.length);
    expect(new Set(capabilities.map(({ path }) => path)).size).toBe(capabilities.length);
  });
});

it('every operation has a test that names its path', () => {
  const untested = [...callerEndpoints, ...operatorEndpoints].filter(({ path }) => {
    const below = path.replace(/^\/api\/(?:admin\/)?v1/, '').replaceAll(/[:*]\w+/g, '[^/\\s]+');
    const named = new RegExp(`${below.replaceAll('.', '\\.')}(?![\\w/-])`);
    return !tests.some((text) => named.test(text));
  });
  expect(untested.map(({ method, path }) => `${method} ${path}`)).toEqual([]);
});

it.each([...providerDefinitions.keys()])(
  'every provider %s has an adapter in a folder of its name',
  (name) => {
    expect(files.some((file) => file.startsWith(`providers/${name}/`))).toBe(true);
  },
);

it('no test ignores the response of a call, and then waits for what did not begin', () => {
  const ignored = /(?:[;{})]|\belse)\s*(?:\/\/[^\n]*\s*)*await gateway\.(?:call|admin)[<(]/;
  const ofTests = code.filter((file) => file.startsWith('test/') && file !== 'test/tidy.test.ts');
  expect(ofTests.filter((file) => ignored.test(read(file)))).toEqual([]);
});

it('docs/errors.md has a row for every code, with its status', () => {
  const text = read('docs/errors.md');
  for (const [code_, { status }] of Object.entries(errorTable)) {
    expect(text).toContain(`| \`${code_}\` | ${status} |`);
  }
});

it('the documents name only files that exist', () => {
  const folders = ['test', 'deploy', ...Object.keys(graph)].join('|');
  const path = new RegExp(`\`((?:${folders})/[\\w./-]+\\.\\w+)\``, 'g');
  const pages = files.filter((file) => file.endsWith('.md') && file !== 'docs/CHANGELOG.md');
  const named = pages.flatMap((file) =>
    Array.from(read(file).matchAll(path), ([, name = '']) => `${file}: ${name}`),
  );
  expect(named.length).toBeGreaterThan(30);
  expect(named.filter((line) => !existsSync(root + line.split(': ')[1]))).toEqual([]);
});

it('comments name only files that exist', () => {
  const comment = /\/\*[^]*?\*\/|(?<!:)\/\/[^\n]*|^[ \t]*(?:--|#)[^\n]*/gm;
  const named = files
    .filter((file) => /\.(tsx?|mjs|sql|py|sh)$/.test(file) && !file.startsWith('test/histories/'))
    .flatMap((file) =>
      [...read(file).matchAll(comment)].flatMap(([text]) =>
        Array.from(
          text.matchAll(/(?<![\w./-])([\w./-]*[\w-]\.(?:tsx?|md|sql|mjs))\b/g),
          ([, name = '']) => ({
            file,
            name,
          }),
        ),
      ),
    );
  expect(named.length).toBeGreaterThan(100);
  const isKnown = (name: string): boolean =>
    files.some((file) => file === name || file.endsWith(`/${name}`));
  expect(named.filter(({ name }) => !isKnown(name))).toEqual([]);
});

describe('links of the documents', () => {
  const pages = files.filter((file) => file.endsWith('.md'));
  const linesOutsideCode = (file: string): string => read(file).replaceAll(/^```[^]*?^```$/gm, '');
  /** Returns the anchors that GitHub gives to the sections of a page. */
  const listAnchors = (file: string): string[] =>
    [...linesOutsideCode(file).matchAll(/^#+ (.*)$/gm)].map(([, title = '']) =>
      title
        .toLowerCase()
        .replaceAll(/[^\p{L}\p{N} _-]/gu, '')
        .replaceAll(' ', '-'),
    );

  it('lead to files and sections that exist', () => {
    const links = pages.flatMap((file) =>
      [...linesOutsideCode(file).matchAll(/\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)/g)].map(
        ([, path = '', anchor]) => ({
          file,
          target: path === '' ? file : join(dirname(file), path),
          anchor,
        }),
      ),
    );
    expect(links.length).toBeGreaterThan(100);
    const broken = links.filter(
      ({ target, anchor }) =>
        !existsSync(root + target) ||
        (anchor !== undefined && !listAnchors(target).includes(anchor)),
    );
    expect(broken).toEqual([]);
  });

  it('reach every page from docs/README.md', () => {
    const map = read('docs/README.md') + read('docs/runbooks/README.md');
    const unreached = pages.filter((file) => !map.includes(basename(file)));
    expect(unreached.filter((file) => file !== 'docs/README.md')).toEqual([]);
  });
});

it('docs/architecture.md has the drawing of the current code (npm run dev -- draw)', () => {
  expect(read('docs/architecture.md')).toBe(updateArchitecture());
  expect(read('docs/architecture.md')).toMatch(/^ {2}api --> .*\bactivities$/m);
});
