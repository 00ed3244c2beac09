/** `npm run dev -- draw`: draws the code's import graph into docs/architecture.md. */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { graph } from '../../oxlint.config.ts';

const root = fileURLToPath(new URL('../../', import.meta.url));
const page = `${root}docs/architecture.md`;
const diagramPattern = /<!-- drawing -->\n[^]*?<!-- \/drawing -->/;
/** Captures the top-level folder of an import. */
const importPattern = /^(?:import|export) [^;]*?from '(?:\.\.\/)+([a-z]+)\/[^']+';/gm;

/** Returns the top-level folders from which the files in a folder import. */
function listImports(folder: string): Set<string> {
  const files = readdirSync(root + folder, { recursive: true, encoding: 'utf8' });
  return new Set(
    files
      .filter((name) => name.endsWith('.ts'))
      .flatMap((name) => [
        ...readFileSync(`${root}${folder}/${name}`, 'utf8').matchAll(importPattern),
      ])
      .map(([, other = '']) => other),
  );
}

/** Draws the graph as a Mermaid diagram, which GitHub renders. */
function drawGraph(): string {
  const edges = Object.entries(graph).flatMap(([folder, { value, type = [] }]) => {
    const used = listImports(folder);
    const arrow = (kind: string, others: readonly string[]): string[] => {
      const inUse = others.filter((other) => used.has(other.replace(`${folder}/`, '')));
      return inUse.length === 0 ? [] : [`  ${folder} ${kind} ${inUse.join(' & ')}`];
    };
    return [...arrow('-->', value), ...arrow('-.->', type)];
  });
  return ['```mermaid', 'flowchart TD', ...edges, '```'].join('\n');
}

/** Returns the content of docs/architecture.md with the current diagram. */
export function updateArchitecture(): string {
  return readFileSync(page, 'utf8').replace(
    diagramPattern,
    `<!-- drawing -->\n${drawGraph()}\n<!-- /drawing -->`,
  );
}

if (import.meta.main) writeFileSync(page, updateArchitecture());
