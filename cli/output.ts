/** What the terminal shows: tables and progress for people, JSON for programs. */

/** A cell of a table; null and undefined are shown as `-`. */
export type Cell = string | number | boolean | null | undefined;

/** Text of others' making, without what could steer the terminal. */
function plain(value: Cell): string {
  if (value === null || value === undefined || value === '') return '-';
  return String(value).replaceAll(/\p{Cc}/gu, ' ');
}

/** Rows under their column names, aligned; columns of numbers to the right. */
export function table(rows: Record<string, Cell>[]): string {
  const [first] = rows;
  if (!first) return '(none)\n';
  const names = Object.keys(first);
  const cells = rows.map((row) => names.map((name) => plain(row[name])));
  const widths = names.map((name, column) =>
    Math.max(name.length, ...cells.map((row) => row[column]?.length ?? 0)),
  );
  const numeric = names.map((name) =>
    rows.every((row) => typeof row[name] === 'number' || row[name] === null),
  );
  const line = (row: string[]): string =>
    row
      .map((cell, column) => {
        const width = widths[column] ?? 0;
        return numeric[column] ? cell.padStart(width) : cell.padEnd(width);
      })
      .join('  ')
      .trimEnd();
  return `${[names.map((name) => name.toUpperCase()), ...cells].map(line).join('\n')}\n`;
}

/** Names and values, one a line. */
export function list(fields: Record<string, Cell>): string {
  const width = Math.max(...Object.keys(fields).map((name) => name.length));
  return Object.entries(fields)
    .map(([name, value]) => `${name.padEnd(width)}  ${plain(value)}\n`)
    .join('');
}

/** Writes results to standard output. */
export interface Output {
  json: boolean;
  /** The answer as it came for programs; `human` for people. */
  show: (raw: unknown, human: () => string) => void;
  text: (text: string) => void;
  /** To standard error: for the eye, never for a pipe. */
  note: (text: string) => void;
  progress: (text: string) => void;
  /** Ends the progress line. */
  progressDone: () => void;
}

/** Output of this process. */
export function createOutput(json: boolean): Output {
  let shown = '';
  const redraws = process.stderr.isTTY;
  return {
    json,
    show(raw, human) {
      process.stdout.write(json ? `${JSON.stringify(raw, null, 2)}\n` : human());
    },
    text: (text) => void process.stdout.write(text),
    note: (text) => void process.stderr.write(`${text}\n`),
    progress(text) {
      if (text === shown) return;
      // Clears to the end of the line: the new text may be shorter.
      process.stderr.write(redraws ? `\r${text}\u001B[K` : `${text}\n`);
      shown = text;
    },
    progressDone() {
      if (redraws && shown !== '') process.stderr.write('\n');
      shown = '';
    },
  };
}
