/** The PromQL expressions of the dashboard and of the alert rules, and the metrics they name. */
import { readFile } from 'node:fs/promises';
import { z } from 'zod';
import { alertRules } from './alert-rules.ts';

const deploy = new URL('../../deploy/', import.meta.url);

const source = z.object({ type: z.literal('prometheus'), uid: z.string() });
const dashboardFile = z.object({
  templating: z.object({
    list: z.array(
      z.object({
        name: z.string(),
        query: z.union([z.string(), z.object({ query: z.string() })]),
        datasource: source.optional(),
      }),
    ),
  }),
  panels: z.array(
    z.object({
      title: z.string(),
      datasource: source.optional(),
      targets: z.array(z.object({ expr: z.string(), datasource: source })).default([]),
    }),
  ),
});
/** Reads the dashboard. */
export async function readDashboard(): Promise<z.infer<typeof dashboardFile>> {
  const file = new URL('grafana/dashboards/studio-gateway.json', deploy);
  return dashboardFile.parse(JSON.parse(await readFile(file, 'utf8')));
}

/** Reads all expressions of the dashboard and of the alert rules. */
export async function readExpressions(): Promise<string[]> {
  const { panels } = await readDashboard();
  return [...panels.flatMap(({ targets }) => targets), ...alertRules].map(({ expr }) => expr);
}

const grouping = /\b(?:by|on|without) \(([^)]*)\)/g;

/** Returns the metrics in an expression, with the labels that it selects by. */
export function readSelectors(expression: string): { name: string; labels: string[] }[] {
  const found = expression
    .replaceAll(grouping, '')
    .matchAll(/\b((?:gateway|gen_ai|temporal|nodejs|process)_\w+)(?:\{([^}]*)\})?/g);
  return [...found].map(([, name = '', matchers = '']) => ({
    name,
    labels: [...matchers.matchAll(/(\w+)\s*(?:=~|!~|!=|=)/g)].map(([, label = '']) => label),
  }));
}

/** Returns the labels that an expression groups by. */
export function readGroups(expression: string): string[] {
  return [...expression.matchAll(grouping)].flatMap(([, labels = '']) => labels.split(/,\s*/));
}
