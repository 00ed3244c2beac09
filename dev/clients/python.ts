/** Generates Python code: the synchronous client, and an overload of each method for each capability. */
import type { Capability } from './description.ts';

/** First line of the generated Python modules. */
export const header =
  '# Made by `npm run dev -- clients`: change dev/clients/ or the asynchronous client instead.\n';

/** Replacements that turn asynchronous code into synchronous code, in order. */
const replacements: readonly [RegExp, string][] = [
  [/\basync (def|with|for)\b/g, '$1'],
  [/\bawait /g, ''],
  [/\b_async_(transport|runs)\b/g, '_$1'],
  [/\basync_chunks\b/g, 'chunks'],
  [/\bAsync(StudioGateway|Runs|Transport|Iterator|Client)\b/g, '$1'],
  [/\b__a(enter|exit)__\b/g, '__$1__'],
  [/\ba(close|read|iter_lines)\b/g, '$1'],
  [/\basyncio\.sleep\b/g, 'time.sleep'],
  [/^import asyncio$/gm, 'import time'],
];

/** Converts an asynchronous Python module to a synchronous one. */
export function makeSynchronous(source: string): string {
  return (
    header + replacements.reduce((text, [found, other]) => text.replaceAll(found, other), source)
  );
}

/** Generates the asynchronous methods that accept a capability, with an overload for each capability. */
export function asyncRuns(capabilities: readonly Capability[]): string {
  const names = capabilities.flatMap(({ request, result }) => [request, result]);
  const imports = [...new Set([...names, 'StudioEstimate'])].toSorted();
  return `"""The methods that accept a capability, with the types of each capability."""

from __future__ import annotations

from typing import Any, Literal, Mapping, overload

from ._types import JobTicket
from .schemas import (
${imports.map((name) => `    ${name},\n`).join('')})


class AsyncRuns:
    async def _run(
        self, capability: str, input: Mapping[str, Any], timeout: float | None, key: str | None
    ) -> Any:
        raise NotImplementedError

    async def _submit(self, capability: str, input: Mapping[str, Any], key: str | None) -> str:
        raise NotImplementedError

    async def _estimate(self, capability: str, input: Mapping[str, Any]) -> StudioEstimate:
        raise NotImplementedError

${methods.map((method) => writeMethod(method, capabilities)).join('\n')}`;
}

/** Parts of a generated method: its keyword arguments, the type of its result, and its body. */
interface Method {
  name: string;
  options: string;
  resultType: (capability: Capability) => string;
  body: string;
}

const methods: readonly Method[] = [
  {
    name: 'run',
    options: 'timeout: float | None = None, idempotency_key: str | None = None',
    resultType: ({ result }) => result,
    body: `"""Submits a job, waits for its end, and returns its result.

        \`\`timeout\`\`: seconds after which \`\`TIMEOUT\`\` is raised while the job continues; None: no limit.
        \`\`idempotency_key\`\`: absent: a new key, which only the retries of this call share.
        Raises StudioError if the request is rejected, or the job fails or is canceled.
        """
        return await self._run(capability, input, timeout, idempotency_key)`,
  },
  {
    name: 'submit',
    options: 'idempotency_key: str | None = None',
    resultType: ({ result }) => `JobTicket[${result}]`,
    body: `"""Starts a job. Its credits are reserved when the method returns."""
        return JobTicket.of(await self._submit(capability, input, idempotency_key))`,
  },
  {
    name: 'estimate',
    options: '',
    resultType: () => 'StudioEstimate',
    body: `"""Estimates the credits that \`\`submit\`\` would reserve, item by item. Nothing is started."""
        return await self._estimate(capability, input)`,
  },
];

function writeMethod(method: Method, capabilities: readonly Capability[]): string {
  const { name, options, resultType, body } = method;
  const rest = options === '' ? '' : ` *, ${options},`;
  const overloads = capabilities.map(
    (capability) => `    @overload
    async def ${name}(
        self, capability: Literal["${capability.name}"], input: ${capability.request},${rest}
    ) -> ${resultType(capability)}: ...

`,
  );
  return `${overloads.join('')}    async def ${name}(
        self, capability: str, input: Any,${rest}
    ) -> Any:
        ${body}
`;
}
