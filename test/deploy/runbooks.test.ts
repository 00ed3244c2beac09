/** Each alert links to the page with its steps, and the page names the alert. */
import { readdir, readFile } from 'node:fs/promises';
import { describe, expect, it } from 'vitest';
import { invariantNames } from '../../ledger/invariants.ts';
import { alertRules } from './alert-rules.ts';

const root = new URL('../../', import.meta.url);
const read = (path: string): Promise<string> => readFile(new URL(path, root), 'utf8');

const runbooksByAlert = new Map(
  alertRules.map(({ alert, annotations: { runbook_url } }) => [alert, runbook_url]),
);
const index = await read('docs/runbooks/README.md');

/** Address of the repository, so that a link in a message leads somewhere. */
const repository = 'https://git.example.com/studio-gateway/blob/main/';

describe('the runbook of an alert', () => {
  it.each([...runbooksByAlert])('%s is at %s, which names it', async (alert, url) => {
    expect(url.startsWith(repository)).toBe(true);
    const [path = '', section] = url.slice(repository.length).split('#');
    const page = await read(path);
    expect(page).toContain(`\`${alert}\``);
    const sections = [...page.matchAll(/^##? (.*)$/gm)].map(([, title = '']) =>
      title.toLowerCase().replaceAll(' ', '-'),
    );
    if (section !== undefined) expect(sections).toContain(section);
  });

  it('exists for every alert in the index of the runbooks', () => {
    const alerts = [...index.matchAll(/`([A-Z][a-z]+[A-Z]\w+)`/g)].map(([, name]) => name);
    expect(alerts.length).toBeGreaterThan(20);
    expect(alerts.filter((name) => !runbooksByAlert.has(name ?? ''))).toEqual([]);
  });

  it('has the severity that the index of the runbooks states', () => {
    const stated = [...index.matchAll(/^\| (`.*`.*) \| (?:\*\*(page)\*\*|(ticket)) \|/gm)].flatMap(
      ([, names = '', page, ticket]) =>
        [...names.matchAll(/`(\w+)`/g)].map(([, name]) => `${name} ${page ?? ticket}`),
    );
    // The index has one row for all alerts about slow burns.
    const isSlow = ({ alert }: { alert: string }): boolean => alert.endsWith('BurnsSlow');
    const expected = alertRules
      .filter((rule) => !isSlow(rule))
      .map(({ alert, labels }) => `${alert} ${labels.severity}`);
    expect(stated.toSorted()).toEqual(expected.toSorted());
    const slow = new Set(alertRules.filter(isSlow).map(({ labels }) => labels.severity));
    expect(slow).toEqual(new Set(['ticket']));
  });
});

it('the runbook of the audit has a row for every finding', async () => {
  const page = await read('docs/runbooks/audit-row.md');
  const findings = [...page.matchAll(/^\| ([^|]+) \|/gm)].flatMap(([, cell = '']) =>
    cell.split('; '),
  );
  expect(invariantNames.filter((name) => !findings.includes(name))).toEqual([]);
});

it('a runbook has a test that causes its problem and follows its steps', async () => {
  const folder = await readdir(new URL('docs/runbooks/', root));
  const pages = folder.filter((name) => name !== 'README.md').map((name) => name.slice(0, -3));
  expect(pages.length).toBeGreaterThan(8);
  const rehearsals = new Map<string, string>();
  for (const name of await readdir(new URL('test/runbooks/', root))) {
    const file = `test/runbooks/${name}`;
    for (const [, page = ''] of (await read(file)).matchAll(/\.follow\('([\w-]+)'/g)) {
      rehearsals.set(page, file);
    }
  }
  for (const page of pages) {
    const test = rehearsals.get(page) ?? 'no rehearsal';
    expect(await read(`docs/runbooks/${page}.md`), page).toContain(`\`${test}\``);
  }
});
