/** Commands that send one request and show its response, and price estimates. */
import type { Command } from 'commander';
import { fields, oneAnswer, cellsOf, listIn, list, table, type Fields } from './output.ts';
import { sessionOf, type Session } from './session.ts';

/** Command with its request and the text of its response. */
export interface Action<Options> {
  command: Command;
  /** `admin`: the request is sent with the operator's key; absent: with the caller's key. */
  as?: 'admin';
  /** HTTP method; absent: POST if there is a body, else GET. */
  method?: 'POST' | 'PUT' | 'DELETE';
  /** Returns the path of the request; the arguments of the command are percent-encoded. */
  path: (...args: string[]) => string;
  /** Returns the body of the request; absent: no body. */
  body?: (options: Options, args: string[]) => object;
  /** True if the response body is the data without the envelope `{ data }`. */
  bare?: true;
  /** Formats the data of the response for people. */
  text: (data: Fields, args: string[]) => string;
}

/** Registers the action of a command: send the request, print the response. */
export function addAction<Options extends object>(action: Action<Options>): void {
  const { command, as = 'api', method, path, body, bare, text } = action;
  const schema = bare ? fields.transform((data) => ({ data })) : oneAnswer;
  command.action(async () => {
    const session = sessionOf(command);
    const { args } = command;
    const { body: answer, raw } = await session[as]().send(
      path(...args.map(encodeURIComponent)),
      schema,
      { ...(method && { method }), ...(body && { body: body(command.opts<Options>(), args) }) },
    );
    session.output.show(raw, () => text(answer.data, args));
  });
}

/**
 * Requests the price of a request and prints it. `path` is the path of the endpoint below /api/v1.
 * @throws StudioError, CliError
 */
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
