/** Commands that send one request and show its response. */
import type { Command } from 'commander';
import { fields, oneAnswer, type Fields } from './output.ts';
import { apiRoots, openSession, type KeyOwner } from './session.ts';

/** Command with its request and the text of its response. */
export interface Action<Options> {
  command: Command;
  /** Owner of the key that the request is sent with; absent: the caller. */
  as?: KeyOwner;
  /** HTTP method; absent: POST if there is a body, else GET. */
  method?: 'POST' | 'PUT' | 'DELETE';
  /**
   * Returns the path below the root of the owner's API; the arguments of the command are
   * percent-encoded.
   */
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
  const { command, as = 'caller', method, path, body, bare, text } = action;
  const schema = bare ? fields.transform((data) => ({ data })) : oneAnswer;
  command.action(async () => {
    const session = openSession(command);
    const { args } = command;
    const { body: answer, raw } = await session
      .client(as)
      .send(apiRoots[as] + path(...args.map(encodeURIComponent)), schema, {
        ...(method && { method }),
        ...(body && { body: body(command.opts<Options>(), args) }),
      });
    session.output.show(raw, () => text(answer.data, args));
  });
}
