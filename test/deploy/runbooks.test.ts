/** Each alert links to the page with its steps, and the page names the alert. */
import { readdir, readFile } from 'node:fs/promises';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { z } from 'zod';
import { invariantNames } from '../../ledger/invariants.ts';

const root = new URL('../../', import.meta.url);
const annotations = z.object({ runbook_url: z.string() }).loose();
const ruleFile = z.object({
  groups: z.array(
    z.object({
      rules: z.array(
        z.object({ alert: z.string(), labels: z.object({ severity: z.string() }), annotations }),
      ),
    }),
  ),
});
const unitTests = z.object({
  tests: z.array(
    z.object({
      alert_rule_test: z
        .array(
          z.object({
            alertname: z.string(),
            exp_alerts: z.array(z.object({ exp_annotations: annotations })),
          }),
        )
        .default([]),
    }),
  ),
});

async function read(path: string): Promise<string> {
  return readFile(new URL(path, root), 'utf8');
}

const { groups } = ruleFile.parse(parse(await read('deploy/prometheus/alerts.yml')));
const rules = groups.flatMap((group) => group.rules);
const runbookOf = new Map(
  rules.map(({ alert, annotations: { runbook_url } }) => [alert, runbook_url]),
);

/** Address of the repository, so that a link in a message leads somewhere. */
const repository = 'https://git.example.com/studio-gateway/blob/main/';

describe('the runbook of an alert', () => {
  it.each([...runbookOf])('%s is at %s, which names it', async (alert, url) => {
    expect(url.startsWith(repository)).toBe(true);
    const [path = '', section] = url.slice(repository.length).split('#');
    const page = await read(path);
    expect(page).toContain(`\`${alert}\``);
    const sections = [...page.matchAll(/^##? (.*)$/gm)].map(([, title = '']) =>
      title.toLowerCase().replaceAll(' ', '-'),
    );
    if (section !== undefined) expect(sections).toContain(section);
  });

  it('appears in the unit tests of the rules as in the rules', async () => {
    const { tests } = unitTests.parse(parse(await read('deploy/prometheus/alerts.test.yml')));
    const expected = tests
      .flatMap((test) => test.alert_rule_test)
      .flatMap(({ alertname, exp_alerts: alerts }) =>
        alerts.map(({ exp_annotations: told }) => [alertname, told.runbook_url] as const),
      );
    expect(expected.length).toBeGreaterThan(3);
    for (const [alert, url] of expected) expect(url, alert).toBe(runbookOf.get(alert));
  });

  it('exists for every alert in the index of the runbooks', async () => {
    const index = await read('docs/runbooks/README.md');
    const alerts = [...index.matchAll(/`([A-Z][a-z]+[A-Z]\w+)`/g)].map(([, name]) => name);
    expect(alerts.length).toBeGreaterThan(20);
    expect(alerts.filter((name) => !runbookOf.has(name ?? ''))).toEqual([]);
  });

  it('has the severity that the index of the runbooks states', async () => {
    const index = await read('docs/runbooks/README.md');
    const told = [...index.matchAll(/^\| (`.*`.*) \| (?:\*\*(page)\*\*|(ticket)) \|/gm)].flatMap(
      ([, names = '', page, ticket]) =>
        [...names.matchAll(/`(\w+)`/g)].map(([, name]) => `${name} ${page ?? ticket}`),
    );
    // Those that burn slowly are told as one.
    const expected = rules
      .filter(({ alert }) => !alert.endsWith('BurnsSlow'))
      .map(({ alert, labels }) => `${alert} ${labels.severity}`);
    expect(told.toSorted()).toEqual(expected.toSorted());
    const slow = rules.filter(({ alert }) => alert.endsWith('BurnsSlow'));
    expect(slow.map(({ labels }) => labels.severity)).toEqual(slow.map(() => 'ticket'));
  });
});

describe('the runbook of the audit', () => {
  it('has a row for every finding', async () => {
    const page = await read('docs/runbooks/audit-row.md');
    const told = [...page.matchAll(/^\| ([^|]+) \|/gm)].flatMap(([, cell = '']) =>
      cell.split('; '),
    );
    expect(invariantNames.filter((name) => !told.includes(name))).toEqual([]);
  });
});

describe('a runbook', () => {
  it('has a test that causes its problem and follows its steps', async () => {
    const folder = await readdir(new URL('docs/runbooks/', root));
    const pages = folder.filter((name) => name !== 'README.md').map((name) => name.slice(0, -3));
    expect(pages.length).toBeGreaterThan(8);
    const tests = (await readdir(new URL('test/runbooks/', root))).filter((name) =>
      name.endsWith('.test.ts'),
    );
    const rehearsals = (
      await Promise.all(
        tests.map(async (name) =>
          [...(await read(`test/runbooks/${name}`)).matchAll(/\.follow\('([\w-]+)'/g)].map(
            ([, page = '']) => `${page}: test/runbooks/${name}`,
          ),
        ),
      )
    ).flat();
    for (const page of pages) {
      const [test = 'no rehearsal'] = rehearsals.flatMap((one) =>
        one.startsWith(`${page}: `) ? [one.slice(page.length + 2)] : [],
      );
      // And says by which.
      expect(await read(`docs/runbooks/${page}.md`), page).toContain(`\`${test}\``);
    }
  });
});
