/** Reads a page of metrics (https://prometheus.io/docs/instrumenting/exposition_formats/). */

/** One value of a metric. */
export interface Sample {
  labels: Record<string, string>;
  value: number;
}

/** Samples by name, including `_bucket`, `_sum` and `_count`; a metric without samples has an empty list. */
export type Page = Map<string, Sample[]>;

const suffixes: Record<string, string[]> = { histogram: ['_bucket', '_sum', '_count'] };

/** Reads a page. */
export async function readPage(url: string): Promise<Page> {
  const answer = await fetch(url);
  if (!answer.ok) throw new Error(`${url} answered ${answer.status}`);
  const page: Page = new Map();
  for (const line of (await answer.text()).split('\n')) {
    const [, declared, kind = ''] = /^# TYPE (\S+) (\S+)$/.exec(line) ?? [];
    if (declared !== undefined) {
      for (const suffix of suffixes[kind] ?? ['']) page.set(declared + suffix, []);
    }
    const [, name, labels = '', value] = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)/.exec(line) ?? [];
    if (name === undefined || value === undefined) continue;
    const samples = page.get(name) ?? [];
    samples.push({
      labels: Object.fromEntries(
        [...labels.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)].map(([, key = '', text = '']) => [
          key,
          text,
        ]),
      ),
      value: Number(value),
    });
    page.set(name, samples);
  }
  return page;
}

/** Returns the sum of the samples of a metric with these labels; NaN if there is none. */
export function sum(page: Page, name: string, labels: Record<string, string> = {}): number {
  const found = (page.get(name) ?? []).filter((sample) =>
    Object.entries(labels).every(([key, value]) => sample.labels[key] === value),
  );
  return found.length === 0 ? Number.NaN : found.reduce((total, { value }) => total + value, 0);
}
