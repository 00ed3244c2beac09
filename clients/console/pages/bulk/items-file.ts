/** Reads the items of a bulk job from a CSV or NDJSON file. */
import type { Schemas } from '../../gateway/client.ts';

/** Item of a bulk job. */
export type Item = Schemas['StartBulkRequest']['items'][number];

/** Reads a file. Each line is an item as JSON, or a row whose columns are `id`, `use` and fields of the body. @throws Error */
export async function readItems(file: File): Promise<Item[]> {
  const text = (await file.text()).trim();
  return text.startsWith('{') ? text.split('\n').map(parseLine) : readRows(text);
}

function parseLine(line: string, index: number): Item {
  try {
    return JSON.parse(line);
  } catch {
    throw new Error(`Line ${index + 1} is not valid JSON.`);
  }
}

function readRows(text: string): Item[] {
  const [names = [], ...rows] = parseCsv(text);
  const items = rows.map((cells) => {
    const fields = names.flatMap((name, index): [string, unknown][] => {
      const cell = cells[index] ?? '';
      return cell === '' ? [] : [[name, toValue(name, cell)]];
    });
    const body = Object.fromEntries(fields.filter(([name]) => !ownNames.has(name)));
    return { ...Object.fromEntries(fields.filter(([name]) => ownNames.has(name))), body };
  });
  // oxlint-disable-next-line no-unsafe-type-assertion -- the API checks the items
  return items as Item[];
}

/** Columns that are fields of the item, not of its body. */
const ownNames = new Set(['id', 'use']);

/** Converts a cell: numbers, booleans and JSON become values, except in texts. */
function toValue(name: string, cell: string): unknown {
  if (name === 'prompt' || name === 'text' || name === 'title' || name === 'id') return cell;
  return /^(-?\d+(\.\d+)?|true|false|[[{].*)$/s.test(cell) ? JSON.parse(cell) : cell;
}

/** Splits CSV into rows of cells. A quoted cell may contain commas, line breaks and `""`. */
function parseCsv(text: string): string[][] {
  const rows: string[][] = [[]];
  for (const [, quoted, plain, end] of text.matchAll(
    /(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r?\n|$)/g,
  )) {
    rows.at(-1)?.push(quoted?.replaceAll('""', '"') ?? plain ?? '');
    if (end === '') break;
    if (end !== ',') rows.push([]);
  }
  return rows;
}
