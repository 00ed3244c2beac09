/** Python that is generated here: the synchronous client, and the overloads for each capability. */
import type { Capability } from './description.ts';

const header =
  '# Made by `npm run dev -- clients`: change dev/clients/ or the asynchronous client instead.\n';

/** Replacements that turn asynchronous code into synchronous code, in the order in which they apply. */
const replacements: readonly [RegExp, string][] = [
  [/\basync (def|with|for)\b/g, '$1'],
  [/\bawait /g, ''],
  [/\b_async_transport\b/g, '_transport'],
  [/\basync_chunks\b/g, 'chunks'],
  [/\bAsync(StudioGateway|Runs|Transport|Iterator|Client)\b/g, '$1'],
  [/\b__a(enter|exit)__\b/g, '__$1__'],
  [/\ba(close|read|iter_lines)\b/g, '$1'],
  [/\basyncio\.sleep\b/g, 'time.sleep'],
  [/^import asyncio$/gm, 'import time'],
];

/** Makes a synchronous module from an asynchronous one. */
export function syncFrom(source: string): string {
  return (
    header + replacements.reduce((text, [found, other]) => text.replaceAll(found, other), source)
  );
}

/** Makes the methods that accept a capability, with a signature for each capability. */
export function overloadsOf(capabilities: readonly Capability[]): string {
  const names = capabilities.flatMap(({ request, result }) => [request, result]);
  const imports = [...new Set([...names, 'StudioEstimate'])].toSorted();
  return `${header}"""The methods that accept a capability, with the types of each capability."""

from __future__ import annotations

from typing import Any, Literal, Mapping, overload

from ._types import JobTicket
from .schemas import (
${imports.map((name) => `    ${name},\n`).join('')})


${classOf('Runs', '', capabilities)}

${classOf('AsyncRuns', 'async ', capabilities)}`;
}

/** Method with its keyword arguments, its result, the call that implements it, and its documentation. */
interface Method {
  name: string;
  options: string;
  resultOf: (capability: Capability) => string;
  /** Body of the method; `AWAIT ` stands for `await ` in the asynchronous class. */
  body: string;
}

const methods: readonly Method[] = [
  {
    name: 'run',
    options: 'timeout: float | None = None, idempotency_key: str | None = None',
    resultOf: ({ result }) => result,
    body: `"""Submits a job, waits for its end, and returns its result.

        \`\`timeout\`\`: seconds after which \`\`TIMEOUT\`\` is raised while the job continues; None: no limit.
        \`\`idempotency_key\`\`: absent: a new key, which only the retries of this call share.
        Raises StudioError if the request is rejected, or the job fails or is canceled.
        """
        return AWAIT self._run(capability, input, timeout, idempotency_key)`,
  },
  {
    name: 'submit',
    options: 'idempotency_key: str | None = None',
    resultOf: ({ result }) => `JobTicket[${result}]`,
    body: `"""Starts a job. Its credits are reserved when the method returns."""
        return JobTicket.of(AWAIT self._submit(capability, input, idempotency_key))`,
  },
  {
    name: 'estimate',
    options: '',
    resultOf: () => 'StudioEstimate',
    body: `"""Estimates the credits that \`\`submit\`\` would reserve, item by item. Nothing is started."""
        return AWAIT self._estimate(capability, input)`,
  },
];

function classOf(name: string, word: string, capabilities: readonly Capability[]): string {
  const start = `    ${word}def `;
  return `class ${name}:
${start}_run(
        self, capability: str, input: Mapping[str, Any], timeout: float | None, key: str | None
    ) -> Any:
        raise NotImplementedError

${start}_submit(self, capability: str, input: Mapping[str, Any], key: str | None) -> str:
        raise NotImplementedError

${start}_estimate(self, capability: str, input: Mapping[str, Any]) -> StudioEstimate:
        raise NotImplementedError

${methods.map((method) => methodOf(method, start, capabilities)).join('\n')}`;
}

function methodOf(method: Method, start: string, capabilities: readonly Capability[]): string {
  const { name, options, resultOf, body } = method;
  const rest = options === '' ? '' : ` *, ${options},`;
  const overloads = capabilities.map(
    (capability) => `    @overload
${start}${name}(
        self, capability: Literal["${capability.name}"], input: ${capability.request},${rest}
    ) -> ${resultOf(capability)}: ...

`,
  );
  return `${overloads.join('')}${start}${name}(
        self, capability: str, input: Any,${rest}
    ) -> Any:
        ${body.replaceAll('AWAIT ', start.includes('async') ? 'await ' : '')}
`;
}
