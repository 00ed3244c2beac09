/** Commands that send one request and show its response. */
import type { Command } from 'commander';
import { fields, objectResponse, type Fields } from './output.ts';
import { apiRoots, openSession, type KeyOwner } from './session.ts';

/** Command with its request and the function that formats the response. */
export interface ActionCommand<Options> {
  command: Command;
  /** Owner of the key that authenticates the request. Defaults to `caller`. */
  as?: KeyOwner;
  /** HTTP method. Defaults to POST if there is a body, and otherwise to GET. */
  method?: 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** Returns the request path below `apiRoots[as]` for the command's percent-encoded arguments. */
  path: (...args: string[]) => string;
  /** Returns the request body. Omit it to send no body. */
  body?: (options: Options, args: string[]) => object;
  /** True for a creation with an Idempotency-Key, which is retried if no response arrives. */
  canRetry?: true;
  /** True if the response body is the data itself, not wrapped in `{ data }`. */
  isUnwrapped?: true;
  /** Formats the response data as text for people. */
  text: (data: Fields, args: string[]) => string;
}

/** Configures a command to send its request and print the response. */
export function addAction<Options extends object>(action: ActionCommand<Options>): void {
  const { command, as = 'caller', method, path, body, canRetry, isUnwrapped, text } = action;
  const schema = isUnwrapped ? fields.transform((data) => ({ data })) : objectResponse;
  command.action(async () => {
    const session = openSession(command);
    const { args } = command;
    const { body: answer, raw } = await session
      .client(as)
      .send(apiRoots[as] + path(...args.map(encodeURIComponent)), schema, {
        ...(method && { method }),
        ...(body && { body: body(command.opts<Options>(), args) }),
        ...(canRetry && { canRetry }),
      });
    session.output.show(raw, () => text(answer.data, args));
  });
}
