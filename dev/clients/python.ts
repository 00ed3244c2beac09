/** Generated Python code: the synchronous client, and the overloads of `run`. */
import type { Capability } from './description.ts';

const header =
  '# Made by `npm run dev -- clients`: change dev/clients/ or _async_client.py instead.\n';

/** Identifiers of the asynchronous client and their synchronous counterparts; longer ones first. */
const words: readonly [RegExp, string][] = [
  [/\basync (def|with|for)\b/g, '$1'],
  [/\bawait /g, ''],
  [/\bAsyncStudioGateway\b/g, 'StudioGateway'],
  [/\bAsyncRuns\b/g, 'Runs'],
  [/\bAsyncIterator\b/g, 'Iterator'],
  [/\bAsyncClient\b/g, 'Client'],
  [/\b__aenter__\b/g, '__enter__'],
  [/\b__aexit__\b/g, '__exit__'],
  [/\baclose\b/g, 'close'],
  [/\baread\b/g, 'read'],
  [/\baiter_lines\b/g, 'iter_lines'],
  [/\basyncio\.sleep\b/g, 'time.sleep'],
  [/^import asyncio$/gm, 'import time'],
];

/** Makes the source of the synchronous client from the asynchronous one. */
export function syncFrom(source: string): string {
  return header + words.reduce((text, [word, other]) => text.replaceAll(word, other), source);
}

/** Makes a signature of `run` for each capability, for editors and type checkers. */
export function overloadsOf(capabilities: readonly Capability[]): string {
  const names = capabilities.flatMap(({ request, result }) => [request, result]);
  const imports = [...new Set(names)].toSorted().map((name) => `    ${name},\n`);
  return `${header}"""The verb \`run\` with the types of each capability."""

from __future__ import annotations

from typing import Any, Literal, Mapping, overload

from .schemas import (
${imports.join('')})


${runsOf('Runs', '', capabilities)}

${runsOf('AsyncRuns', 'async ', capabilities)}`;
}

function runsOf(name: string, word: string, capabilities: readonly Capability[]): string {
  const rest = 'timeout: float | None = None, idempotency_key: str | None = None';
  const overloads = capabilities.map(
    (capability) => `    @overload
    ${word}def run(
        self, capability: Literal["${capability.name}"], input: ${capability.request}, *,
        ${rest},
    ) -> ${capability.result}: ...

`,
  );
  const wait = word === '' ? '' : 'await ';
  return `class ${name}:
    ${word}def _run(
        self, capability: str, input: Mapping[str, Any], timeout: float | None, key: str | None
    ) -> Any:
        raise NotImplementedError

${overloads.join('')}    ${word}def run(
        self, capability: str, input: Any, *,
        ${rest},
    ) -> Any:
        """Runs a capability to its end and returns its result.

        \`timeout\`: seconds until this program stops waiting (the job goes on); absent: the job's own end.
        \`idempotency_key\`: a name of your own for this call; absent: a new one, used for retries only.
        Raises StudioError when the request is refused, or the job fails or is canceled.
        """
        return ${wait}self._run(capability, input, timeout, idempotency_key)
`;
}
