/** Commands that send one request and show what it is answered with; estimates of others. */
import type { Command } from 'commander';
import { fields, oneAnswer, cellsOf, listIn, list, table, type Fields } from './output.ts';
import { sessionOf, type Session } from './session.ts';

/** What a command sends and shows. */
export interface Action<Options> {
  command: Command;
  /** With the operator's key; absent: with the caller's. */
  as?: 'admin';
  /** Absent: POST with a body, GET without. */
  method?: 'POST' | 'PUT' | 'DELETE';
  /** The words of the command, fit for a URL, as the path. */
  path: (...words: string[]) => string;
  body?: (options: Options, words: string[]) => object;
  /** The answer is the thing itself, not an object around `data`. */
  bare?: true;
  /** What people see of it. */
  text: (data: Fields, words: string[]) => string;
}

/** Has a command do so. */
export function addAction<Options extends object>(action: Action<Options>): void {
  const { command, as = 'api', method, path, body, bare, text } = action;
  const schema = bare ? fields.transform((data) => ({ data })) : oneAnswer;
  command.action(async () => {
    const session = sessionOf(command);
    const words = command.args;
    const { body: answer, raw } = await session[as]().send(
      path(...words.map(encodeURIComponent)),
      schema,
      { ...(method && { method }), ...(body && { body: body(command.opts<Options>(), words) }) },
    );
    session.output.show(raw, () => text(answer.data, words));
  });
}

/** Shows the price of a request to this path below /api/v1. @throws StudioError, CliError */
export async function showEstimate(
  session: Session,
  path: string,
  request: { body?: object; form?: FormData },
): Promise<void> {
  const { body, raw } = await session.api().send(`/api/v1${path}/estimate`, oneAnswer, request);
  session.output.show(raw, () => {
    const items = listIn(body.data, 'items').map((item) =>
      cellsOf(item, { unit: 'unit', quantity: 'quantity', credits: 'credits', note: 'note' }),
    );
    const total = cellsOf(body.data, { model: 'model', credits: 'credits' });
    return `${list(total)}\n${table(items)}`;
  });
}
