/**
 * Reads the requests of a bulk job from a file: a table (CSV), NDJSON or JSON. Every character of a
 * file is in an item, or its row has a problem: a changed text would be paid for.
 */
import Papa from 'papaparse';
import { toFieldValue, type RequestSchema } from './cell-values.ts';
import { decodeText, UnreadableFileError } from './text-encoding.ts';

/** Item of a bulk job, as the API accepts it. */
interface Item {
  id?: unknown;
  use?: unknown;
  body?: unknown;
}

/** Row of a table, line of NDJSON or item of a JSON array. */
export interface FileRow {
  /** Number of the row, from 1. */
  number: number;
  /** Item as JSON; null if the row has a problem. */
  json: string | null;
  item: Item;
  /** Reason for which the row is not an item. */
  problem: string | null;
}

/** Content of a file. */
export interface ItemsFile {
  /** Word for a row in messages. */
  noun: 'row' | 'line' | 'item';
  rows: FileRow[];
  /** Numbers of the empty rows, which are skipped. */
  emptyRows: number[];
  /** Options of the bulk job in the file. */
  options: Record<string, unknown>;
  encoding: string;
}

interface ReadOptions {
  /** Reads the schemas of the requests, keyed by `use`. Only a table needs them. */
  readSchemas: () => Promise<ReadonlyMap<string, RequestSchema>>;
  /** Encoding of a file that is neither UTF-8 nor UTF-16. Without it, such a file is rejected. */
  otherEncoding?: string | undefined;
}

/** Description of the API (OpenAPI), in which tables find the schemas of chats. */
export interface ApiDescription {
  paths: Record<
    string,
    { post?: { requestBody?: { content: Record<string, { schema?: RequestSchema }> } } }
  >;
}

/** Lists the request schemas of chat endpoints by the `use` of an item, which is the path after `/api/v1/`. */
export const listChatSchemas = ({ paths }: ApiDescription): [string, RequestSchema][] =>
  Object.entries(paths).flatMap(([path, { post }]) => {
    const schema = post?.requestBody?.content['application/json']?.schema;
    return schema && !path.includes('/studio/') ? [[path.replace('/api/v1/', ''), schema]] : [];
  });

/** Reads a file. @throws UnreadableFileError, and the errors of `readSchemas` */
export async function readItemsFile(
  bytes: Uint8Array,
  { readSchemas, otherEncoding }: ReadOptions,
): Promise<ItemsFile> {
  const { text, encoding } = decodeText(bytes, otherEncoding);
  const content = /^\s*[[{]/.test(text)
    ? (readDocument(text) ?? readLines(text))
    : readTable(text, await readSchemas());
  if (content.rows.length === 0) throw new UnreadableFileError('The file has no items.');
  return { ...content, encoding };
}

type Content = Omit<ItemsFile, 'encoding'>;

/** Reads one JSON value: an array of items, or the body of a request. Null for other texts. */
function readDocument(text: string): Content | null {
  const value = parseJson(text);
  const { items, ...options }: Record<string, unknown> = Array.isArray(value)
    ? { items: value }
    : isRecord(value)
      ? value
      : {};
  if (!Array.isArray(items)) return null;
  const rows = items.map((item: unknown, index) => toRow(index + 1, item, JSON.stringify(item)));
  return { noun: 'item', rows, emptyRows: [], options };
}

function readLines(text: string): Content {
  const rows: FileRow[] = [];
  const emptyRows: number[] = [];
  const lines = text.trimEnd().split('\n');
  let options: Record<string, unknown> | undefined;
  for (const [index, line] of lines.entries()) {
    const json = line.trim();
    const value = parseJson(json);
    const head = isRecord(value) && Object.keys(value).length === 1 ? value['options'] : undefined;
    const isFirst = rows.length === 0 && options === undefined;
    if (json === '') emptyRows.push(index + 1);
    else if (isFirst && isRecord(head)) options = head;
    else rows.push(toRow(index + 1, value, json));
  }
  return { noun: 'line', rows, emptyRows, options: options ?? {} };
}

function toRow(number: number, value: unknown, json: string): FileRow {
  if (isRecord(value)) return { number, json, item: value, problem: null };
  const problem =
    value === undefined ? 'is not valid JSON' : 'must be a JSON object, such as {"use": …}';
  return { number, json: null, item: {}, problem };
}

/** Reads a table whose columns are `id`, `use`, fields of the request and `metadata.<name>`. */
function readTable(text: string, schemas: ReadonlyMap<string, RequestSchema>): Content {
  const records = parseTable(text);
  const headIndex = records.findIndex((cells) => !isEmpty(cells));
  const names = readHeader(records[headIndex]);
  const rows: FileRow[] = [];
  const emptyRows: number[] = [];
  for (const [index, cells] of records.entries()) {
    if (index <= headIndex) continue;
    if (isEmpty(cells)) emptyRows.push(index + 1);
    else rows.push(readRow(index + 1, cells, { names, schemas }));
  }
  if (rows.length === 0) throw new UnreadableFileError('The table has a header, but no rows.');
  return { noun: 'row', rows, emptyRows, options: {} };
}

const isEmpty = (cells: readonly string[]): boolean => cells.every((cell) => cell.trim() === '');

/** Splits a table into rows of cells. @throws UnreadableFileError if a quoted cell is malformed */
function parseTable(text: string): string[][] {
  const lines = text.replaceAll(/\r\n?/g, '\n').replace(/\n$/, '');
  // Excel hides this line, and counts rows from the next one.
  const [, separator] = /^"?sep=([^\n"])"?(?:\n|$)/i.exec(lines) ?? [];
  const table = separator === undefined ? lines : lines.slice(lines.indexOf('\n') + 1);
  const header = table.split('\n').find((line) => line.trim() !== '') ?? '';
  const delimiter = separator ?? /[,;\t|]/.exec(header.replaceAll(/"[^"]*"/g, ''))?.[0] ?? ',';
  const { data, errors } = Papa.parse<string[]>(table, { delimiter, newline: '\n' });
  const [error] = errors;
  if (!error) return data;
  const row = (error.row ?? 0) + 1;
  throw new UnreadableFileError(
    `Row ${row} has a cell that begins with a quote and does not end with one. Write a quote inside a quoted cell as "".`,
  );
}

function readHeader(cells: readonly string[] | undefined): string[] {
  if (!cells) throw new UnreadableFileError('The file is empty.');
  const names = cells.map((name) => name.trim());
  const repeated = names.find((name, index) => name !== '' && names.indexOf(name) !== index);
  if (repeated !== undefined)
    throw new UnreadableFileError(`The table has more than one column ${repeated}.`);
  return names;
}

/** Columns that are fields of the item, not of its body. */
const itemFields = new Set(['id', 'use']);
const metadataPrefix = 'metadata.';

function readRow(
  number: number,
  cells: readonly string[],
  { names, schemas }: { names: readonly string[]; schemas: ReadonlyMap<string, RequestSchema> },
): FileRow {
  const fields = cells.flatMap((cell, index) =>
    cell.trim() === '' ? [] : [{ name: names[index] ?? '', cell, column: index + 1 }],
  );
  const own = fields.filter(({ name }) => itemFields.has(name));
  const item: Record<string, unknown> = Object.fromEntries(
    own.map(({ name, cell }) => [name, cell.trim()]),
  );
  const schema = schemas.get(String(item['use']));
  const body: Record<string, unknown> = {};
  const metadata: Record<string, string> = {};
  for (const { name, cell } of fields) {
    if (name.startsWith(metadataPrefix)) metadata[name.slice(metadataPrefix.length)] = cell;
    else if (name !== '' && !itemFields.has(name))
      body[name] = toFieldValue(cell, schema?.properties?.[name]);
  }
  item['body'] = { ...body, ...(Object.keys(metadata).length > 0 && { metadata }) };
  const unnamed = fields.find(({ name }) => name === '');
  if (!unnamed) return { number, json: JSON.stringify(item), item, problem: null };
  const problem = `has a cell in column ${unnamed.column}, which has no name in the header: ${JSON.stringify(unnamed.cell.slice(0, 40))}`;
  return { number, json: null, item, problem };
}

/** Lists the rows that are items, in the order in which the API numbers them. */
export const listItems = ({ rows }: ItemsFile): FileRow[] =>
  rows.filter(({ json }) => json !== null);

/** Builds the NDJSON body of a request. The options replace those of the file. */
export function buildItemsBody(file: ItemsFile, options: Record<string, unknown>): Blob {
  const head = JSON.stringify({ options: { ...file.options, ...options } });
  const lines = [head, ...listItems(file).map(({ json }) => json)];
  return new Blob([lines.join('\n')], { type: 'application/x-ndjson' });
}

/** Field of a row that the API rejects. `field` is empty if the whole row is rejected. */
export interface RowError {
  row: FileRow;
  field: string;
  message: string;
}

/** Finds the row and the field of an error whose path is like `items.7.body.prompt`. */
export function findRowError(
  file: ItemsFile,
  { path, message }: { path: string; message: string },
): RowError | null {
  const [, index, field = ''] = /^items\.(\d+)(?:\.(.*))?$/.exec(path) ?? [];
  const row = index === undefined ? undefined : listItems(file)[Number(index)];
  return row
    ? { row, field: field.replace(/^body\.?/, ''), message: message.replace(/^line \d+ /, '') }
    : null;
}

/** Names a row, for example `row 7 (sku-7)`. */
export function nameRow({ noun }: ItemsFile, { number, item }: FileRow): string {
  return `${noun} ${number}${typeof item.id === 'string' ? ` (${item.id})` : ''}`;
}

/** Describes what was skipped in a file, for example `2 empty rows were skipped: 3, 7.` */
export function describeSkipped({ noun, emptyRows }: ItemsFile): string | null {
  const { length } = emptyRows;
  if (length === 0) return null;
  const shown = emptyRows.slice(0, 10).join(', ') + (length > 10 ? ', …' : '');
  return length === 1
    ? `1 empty ${noun} was skipped: ${shown}.`
    : `${length} empty ${noun}s were skipped: ${shown}.`;
}

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Parses JSON. Returns undefined if the text is not valid JSON. */
function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
