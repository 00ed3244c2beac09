"""Bulk jobs: thousands of Studio requests with one budget (docs/bulk.md)."""

from __future__ import annotations

import asyncio
import json
import time as clock
from typing import Any, AsyncIterable, AsyncIterator, TypeVar
from urllib.parse import quote

from ._async_bulk_runs import AsyncBulkRuns
from ._async_transport import RECONNECT_WAIT_S, AsyncTransport
from ._errors import StudioError
from ._types import AsyncBulkItems, BulkResult, BulkTicket
from .schemas import (
    BulkDecisions,
    BulkEstimate,
    BulkJob,
    BulkOptions,
    CancelBulkRequest,
    DecideBulkItemsRequest,
    ResumeBulkRequest,
)

R = TypeVar("R")

PATH = "/api/v1/studio/bulk"
#: Maximum time in seconds that one poll waits for the end of a bulk job.
POLL_SECONDS = 20
#: Time in seconds between two polls for new results.
RESULTS_POLL_S = 1
#: Timeout of a request with items in seconds: all of them are checked before the response.
ITEMS_TIMEOUT_S = 600


class AsyncBulkJobs(AsyncBulkRuns):
    """Methods for bulk jobs. They raise the same errors as those of the client."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def _run(
        self,
        items: AsyncBulkItems[Any],
        options: BulkOptions | None,
        timeout: float | None,
        key: str | None,
    ) -> AsyncIterator[Any]:
        ticket: BulkTicket[Any] = await self._start(items, options, key)
        timeout_at = None if timeout is None else clock.monotonic() + timeout
        cursor = "0"
        while True:
            bulk = await self._read(ticket.bulk_id, RESULTS_POLL_S)
            async for result in self.results(ticket, cursor=cursor):
                cursor = result["cursor"]
                yield result
            if bulk["done"]:
                break
            _check_timeout(bulk, timeout, timeout_at)
        if bulk["status"] != "completed":
            message = f"The bulk job {bulk['bulkId']} was {bulk['status']}."
            raise StudioError(bulk["stopReason"] or "CANCELED", message, body=bulk)

    async def _start(
        self, items: AsyncBulkItems[Any], options: BulkOptions | None, key: str | None
    ) -> BulkTicket[Any]:
        bulk = await self._send_items(PATH, items, options, key)
        return BulkTicket(bulk["bulkId"], bulk.get("invalidItems", []))

    async def estimate(
        self, items: AsyncBulkItems[Any], options: BulkOptions | None = None
    ) -> BulkEstimate:
        """Checks and prices all items. Starts nothing."""
        estimate: BulkEstimate = await self._send_items(f"{PATH}/estimate", items, options, None)
        return estimate

    async def get(self, bulk: BulkTicket[R]) -> BulkJob:
        """Returns the current state of a bulk job."""
        return await self._read(bulk.bulk_id, 0)

    async def wait(self, bulk: BulkTicket[R], *, timeout: float | None = None) -> BulkJob:
        """Waits until a bulk job is completed, stopped or canceled, and returns it.

        ``timeout``: maximum time to wait in seconds. After this time, StudioError with the code ``TIMEOUT`` is
        raised, and the bulk job goes on."""
        timeout_at = None if timeout is None else clock.monotonic() + timeout
        while True:
            wait = POLL_SECONDS if timeout_at is None else min(POLL_SECONDS, max(0, timeout_at - clock.monotonic()))
            state = await self._read(bulk.bulk_id, wait)
            if state["done"]:
                return state
            _check_timeout(state, timeout, timeout_at)

    async def results(
        self, bulk: BulkTicket[R], *, cursor: str = "0"
    ) -> AsyncIterator[BulkResult[R]]:
        """Yields the results of the items that have ended, in the order of their ends.

        ``cursor``: that of a result; only the results after it are yielded."""
        failures = 0
        while True:
            try:
                lines = self._transport._stream_lines(
                    "GET", f"{_path(bulk)}/results", params={"cursor": cursor}
                )
                async for line in lines:
                    result: BulkResult[R] = json.loads(line)
                    cursor = result["cursor"]
                    failures = 0
                    yield result
                return
            except StudioError as error:
                if error.code != "CONNECTION_FAILED" or failures >= self._transport._retries:
                    raise
            failures += 1
            await asyncio.sleep(RECONNECT_WAIT_S)

    async def pause(self, bulk: BulkTicket[R]) -> BulkJob:
        """Pauses a bulk job: no further item starts until it is resumed."""
        state: BulkJob = await self._command(bulk, "pause", {})
        return state

    async def resume(
        self, bulk: BulkTicket[R], limits: ResumeBulkRequest | None = None
    ) -> BulkJob:
        """Resumes a paused or stopped bulk job, with other limits if they are set."""
        state: BulkJob = await self._command(bulk, "resume", limits or {})
        return state

    async def retry(self, bulk: BulkTicket[R]) -> BulkJob:
        """Starts the failed items once more as new jobs."""
        state: BulkJob = await self._command(bulk, "retry", {})
        return state

    async def cancel(
        self, bulk: BulkTicket[R], options: CancelBulkRequest | None = None
    ) -> BulkJob:
        """Cancels the waiting items, and with ``{"items": "all"}`` also the running jobs."""
        state: BulkJob = await self._command(bulk, "cancel", options or {})
        return state

    async def decide(
        self, bulk: BulkTicket[R], decision: DecideBulkItemsRequest
    ) -> BulkDecisions:
        """Decides about items that wait, and returns a verdict for each. While ``remaining`` and ``decided`` are above
        0, send the same decision again."""
        decisions: BulkDecisions = await self._command(bulk, "decisions", decision)
        return decisions

    async def _command(self, bulk: BulkTicket[R], name: str, body: Any) -> Any:
        response = await self._transport._send("POST", f"{_path(bulk)}/{name}", json=body)
        return response.json()["data"]

    async def _send_items(
        self, path: str, items: AsyncBulkItems[Any], options: BulkOptions | None, key: str | None
    ) -> Any:
        # The body is kept as a whole, so that a retry can send it again.
        lines: list[Any] = [{"options": options or {}}]
        if isinstance(items, AsyncIterable):
            lines += [item async for item in items]
        else:
            lines += items
        response = await self._transport._send(
            "POST",
            path,
            content="\n".join(json.dumps(line) for line in lines).encode(),
            headers={"Content-Type": "application/x-ndjson"},
            idempotency_key=key,
            timeout=ITEMS_TIMEOUT_S,
        )
        return response.json()["data"]

    async def _read(self, bulk_id: str, wait: float) -> BulkJob:
        response = await self._transport._send(
            "GET",
            _path(BulkTicket(bulk_id)),
            params={"wait": wait},
            timeout=self._transport._timeout + wait,
        )
        bulk: BulkJob = response.json()["data"]
        return bulk


def _path(bulk: BulkTicket[R]) -> str:
    return f"{PATH}/{quote(bulk.bulk_id, safe='')}"


def _check_timeout(bulk: BulkJob, timeout: float | None, timeout_at: float | None) -> None:
    if timeout_at is not None and clock.monotonic() >= timeout_at:
        message = f"The bulk job {bulk['bulkId']} did not end within {timeout} s."
        raise StudioError("TIMEOUT", message, body=bulk)
