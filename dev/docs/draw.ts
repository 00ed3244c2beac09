/** `npm run dev -- draw`: draws the import graph, as it is used, into docs/architecture.md. */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { graph } from '../../oxlint.config.ts';

const root = fileURLToPath(new URL('../../', import.meta.url));
const page = `${root}docs/architecture.md`;
const place = /<!-- drawing -->\n[^]*?<!-- \/drawing -->/;
/** The folder of the root that an import comes from. */
const imported = /^(?:import|export) [^;]*?from '(?:\.\.\/)+([a-z]+)\/[^']+';/gm;

/** The folders that the files of a folder import from. */
function importsOf(folder: string): Set<string> {
  const files = readdirSync(root + folder, { recursive: true, encoding: 'utf8' });
  return new Set(
    files
      .filter((name) => name.endsWith('.ts'))
      .flatMap((name) => [...readFileSync(`${root}${folder}/${name}`, 'utf8').matchAll(imported)])
      .map(([, other = '']) => other),
  );
}

/** The graph in Mermaid's language, which GitHub shows as a picture. */
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

/** docs/architecture.md with the drawing of what the code is now. */
export function drawn(): string {
  return readFileSync(page, 'utf8').replace(
    place,
    `<!-- drawing -->\n${drawing()}\n<!-- /drawing -->`,
  );
}

if (import.meta.main) writeFileSync(page, drawn());
