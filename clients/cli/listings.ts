/** Commands that show a page of a list as a table. */
import type { Command } from 'commander';
import { buildFilterQuery, parseNumber, type FilterOptions } from './fields.ts';
import { toCells, listResponse, formatTable, type Columns } from './output.ts';
import { apiRoots, openSession, type KeyOwner } from './session.ts';

/** Command that lists records. `path` returns the request path below `apiRoots[as]`. */
export interface Listing {
  command: Command;
  as: KeyOwner;
  path: (...args: string[]) => string;
  columns: Columns;
  /** True if the API returns the whole list in one response, without pages. */
  isUnpaged?: true;
}

/** Configures a command to request one page of a list and print it as a table. */
export function addListing({ command, as, path, columns, isUnpaged }: Listing): void {
  if (!isUnpaged) {
    command
      .option('--limit <n>', 'maximum number of rows, 1–100', parseNumber)
      .option('--cursor <cursor>', 'cursor of the next page, printed below the previous page');
  }
  command.action(async () => {
    const session = openSession(command);
    const url = apiRoots[as] + path(...command.args.map(encodeURIComponent));
    const query = buildFilterQuery(command.opts<FilterOptions>());
    const { body, raw } = await session.client(as).send(url, listResponse, { query });
    session.output.show(raw, () => formatTable(body.data.map((row) => toCells(row, columns))));
    session.output.noteNextPage(body.nextCursor);
  });
}
