/** `npm run dev -- draw`: draws the import graph of the code into docs/architecture.md. */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { graph } from '../../oxlint.config.ts';

const root = fileURLToPath(new URL('../../', import.meta.url));
const page = `${root}docs/architecture.md`;
const place = /<!-- drawing -->\n[^]*?<!-- \/drawing -->/;
/** Returns the top-level folder of an import. */
const imported = /^(?:import|export) [^;]*?from '(?:\.\.\/)+([a-z]+)\/[^']+';/gm;

/** Returns the folders that the files of a folder import from. */
function importsOf(folder: string): Set<string> {
  const files = readdirSync(root + folder, { recursive: true, encoding: 'utf8' });
  return new Set(
    files
      .filter((name) => name.endsWith('.ts'))
      .flatMap((name) => [...readFileSync(`${root}${folder}/${name}`, 'utf8').matchAll(imported)])
      .map(([, other = '']) => other),
  );
}

/** Returns the graph as a Mermaid diagram, which GitHub renders. */
function drawing(): string {
  const edges = Object.entries(graph).flatMap(([folder, { value, type = [] }]) => {
    const used = importsOf(folder);
    const arrow = (kind: string, others: readonly string[]): string[] => {
      const inUse = others.filter((other) => used.has(other));
      return inUse.length === 0 ? [] : [`  ${folder} ${kind} ${inUse.join(' & ')}`];
    };
    return [...arrow('-->', value), ...arrow('-.->', type)];
  });
  return ['```mermaid', 'flowchart TD', ...edges, '```'].join('\n');
}

/** Returns docs/architecture.md with the diagram of the current code. */
export function drawn(): string {
  return readFileSync(page, 'utf8').replace(
    place,
    `<!-- drawing -->\n${drawing()}\n<!-- /drawing -->`,
  );
}

if (import.meta.main) writeFileSync(page, drawn());
