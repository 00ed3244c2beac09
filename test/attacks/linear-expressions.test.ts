/** Regular expressions of the product take linear time, because texts of callers meet them. */
import { globSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { graph } from '../../oxlint.config.ts';

const root = fileURLToPath(new URL('../../', import.meta.url));
/** Folders that run in the gateway's own processes. */
const folders = Object.keys(graph).filter((name) => !/^(clients|dev)/.test(name));

interface Found {
  place: string;
  expression: RegExp;
}

/** A literal follows an operator, a bracket, `return` or the start of a line. */
const literal =
  /(?<=(?:^|[=(,:!&|?{[;>])\s*|return )\/(?![*/])((?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\n[])+)\/([dgimsuvy]*)/gm;

/** Finds all literals of regular expressions in the product. */
function findExpressions(): Found[] {
  return globSync(`{${folders.join(',')}}/**/*.ts`, { cwd: root }).flatMap((file) => {
    const code = readFileSync(root + file, 'utf8').replaceAll(/^\s*(?:\/\/|\/?\*).*$/gm, '');
    return Array.from(code.matchAll(literal), ([text, pattern = '', flags]) => ({
      place: `${file}: ${text}`,
      expression: new RegExp(pattern, flags),
    }));
  });
}

/** Length of the attacks on expressions of the product. */
const attackBytes = 5000;
/** Maximum time for a text: 1 ms for 10 KB. */
const msMaxOf = (bytes: number): number => bytes / 10_000;
/** Parts of attacks on any expression: signs, and beginnings of texts that expressions look for. */
const beginnings = ['', 'https://', 'data:'];
const signs = ['a', '0', ' ', '\n', '-', '.', '/', '?', '&', '=', '"', '{', '漢'];
/** End of attacks, which no repeated part matches. */
const end = ' \n\u0000';

/** Returns texts on which an expression tries again and again: its own parts, alone and in pairs. */
function* listAttacks({ source }: RegExp, bytes: number): Generator<string> {
  const characters = source.replaceAll(/\\([^\w])/g, '$1');
  const words = characters.split(/[\\[\](){}|^$*+?.]+/).filter((word) => word.length > 1);
  const parts = [...new Set([...words, ...characters.matchAll(/[^\w\s]/g)].map(String)), ...signs];
  const repeat = (text: string): string => text.repeat(Math.ceil(bytes / text.length));
  for (const first of new Set([...beginnings, ...parts])) {
    for (const second of parts) {
      yield `${first}${repeat(second)}${end}`;
      yield `${repeat(first + second)}${end}`;
    }
  }
}

/** Measures the CPU time of the thread, because others run on a busy machine meanwhile. */
function measureMs(expression: RegExp, text: string): number {
  const started = process.threadCpuUsage();
  text.replace(expression, '');
  return process.threadCpuUsage(started).user / 1000;
}

/** Number of runs after which the least time counts: a busy machine interrupts some of them. */
const runsMax = 20;

/** Returns the least time of some runs, so that no interruption makes an expression slow. */
function measureLeastMs(expression: RegExp, text: string, msMax: number): number {
  let leastMs = measureMs(expression, text);
  for (let run = 0; run < runsMax && leastMs > msMax && leastMs < 20; run += 1)
    leastMs = Math.min(leastMs, measureMs(expression, text));
  return leastMs;
}

/** Returns the attacks on which an expression takes too long. */
const listSlow = (expression: RegExp, bytes = attackBytes): string[] => {
  const msMax = msMaxOf(bytes);
  for (const text of listAttacks(expression, bytes)) {
    const ms = measureLeastMs(expression, text, msMax);
    if (ms > msMax) return [`${ms.toFixed(1)} ms for ${JSON.stringify(text.slice(0, 20))}…`];
  }
  return [];
};

it('finds expressions of quadratic time', () => {
  // The texts are so long that an expression of quadratic time exceeds the limit on any machine.
  const find = (expression: RegExp) => listSlow(expression, 4 * attackBytes);
  expect(find(/[?&][^&#]*=REDACTED(?:[&#]|$)/)).toHaveLength(1);
  expect(find(/^https?:\/\/\S+\?\S+$/i)).toHaveLength(1);
  expect(find(/\s+$/)).toHaveLength(1);
  expect(find(/too many .* words/)).toHaveLength(1);
});

it('every expression takes at most 1 ms for 10 KB', () => {
  const expressions = findExpressions();
  expect(expressions.length).toBeGreaterThan(50);
  const slow = expressions.flatMap(({ place, expression }) =>
    listSlow(expression).map((attack) => `${place}: ${attack}`),
  );
  expect(slow).toEqual([]);
});
