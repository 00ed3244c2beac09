/** The PromQL expressions of the dashboard and of the alert rules, and the metrics they name. */
import { readFile } from 'node:fs/promises';
import { parse } from 'yaml';

const deploy = new URL('../../deploy/', import.meta.url);

interface Dashboard {
  panels: { targets?: { expr: string }[] }[];
}
interface Rules {
  groups: { rules: { alert: string; expr: string }[] }[];
}

/** Every expression, by where it stands. */
export async function readExpressions(): Promise<string[]> {
  const dashboard = JSON.parse(
    await readFile(new URL('grafana/dashboards/studio-gateway.json', deploy), 'utf8'),
  ) as Dashboard;
  const rules = parse(await readFile(new URL('prometheus/alerts.yml', deploy), 'utf8')) as Rules;
  return [
    ...dashboard.panels.flatMap((panel) => (panel.targets ?? []).map(({ expr }) => expr)),
    ...rules.groups.flatMap((group) => group.rules.map(({ expr }) => expr)),
  ];
}

/** Metrics in an expression, with the labels that it selects by. */
export function selectorsOf(expression: string): { name: string; labels: string[] }[] {
  const found = expression.matchAll(/\b((?:gateway|temporal|nodejs|process)_\w+)(?:\{([^}]*)\})?/g);
  return [...found].map(([, name = '', matchers = '']) => ({
    name,
    labels: [...matchers.matchAll(/(\w+)\s*(?:=~|!~|!=|=)/g)].map(([, label = '']) => label),
  }));
}
