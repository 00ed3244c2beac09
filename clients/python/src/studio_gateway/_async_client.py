"""Client of the API: methods for jobs, chats, files and lists, with types generated from the OpenAPI description."""

from __future__ import annotations

import asyncio
import json
import time as clock
from pathlib import Path
from typing import IO, Any, AsyncIterator, Mapping, TypeVar
from urllib.parse import quote

from ._async_bulk import AsyncBulkJobs
from ._async_runs import AsyncRuns
from ._async_transport import RECONNECT_WAIT_S, AsyncTransport
from ._errors import StudioError, build_error
from ._files import UploadSource
from ._types import ChatEvent, CompletedJob, Job, JobTicket
from .schemas import (
    ChatAnswer,
    ChatRequest,
    DecideStepRequest,
    File,
    PipelineResult,
    RequestRecord,
    ResumePipelineRequest,
    StudioEstimate,
    UploadUrl,
    UsageRecord,
)

R = TypeVar("R")

#: Maximum time in seconds that one poll waits for the end of a job.
POLL_SECONDS = 20
#: Timeout of a chat in seconds. It is long, because a model may take minutes to answer.
CHAT_TIMEOUT_S = 600
TRANSFER_TIMEOUT_S = 900
PAGE_SIZE = 100


class AsyncStudioGateway(AsyncRuns, AsyncTransport):
    """Client of the Studio Gateway (README.md). Its methods raise StudioError."""

    @property
    def bulk(self) -> AsyncBulkJobs:
        """Methods for bulk jobs."""
        return AsyncBulkJobs(self)

    async def _submit(self, capability: str, input: Mapping[str, Any], key: str | None) -> str:
        response = await self._send(
            "POST",
            f"/api/v1/studio/{capability}",
            json=input,
            headers={"Prefer": "respond-async"},
            idempotency_key=key,
        )
        # The id is read from the header, because the body does not contain it if a retry arrives after the
        # job has ended. The body is then the job's result.
        job_id: str = response.headers["x-job-id"]
        return job_id

    async def _estimate(self, capability: str, input: Mapping[str, Any]) -> StudioEstimate:
        response = await self._send("POST", f"/api/v1/studio/{capability}/estimate", json=input)
        estimate: StudioEstimate = response.json()["data"]
        return estimate

    async def _run(
        self, capability: str, input: Mapping[str, Any], timeout: float | None, key: str | None
    ) -> Any:
        ticket = JobTicket.of(await self._submit(capability, input, key))
        return (await self.wait(ticket, timeout=timeout))["result"]

    async def wait(self, job: JobTicket[R], *, timeout: float | None = None) -> CompletedJob[R]:
        """Waits for a job to end, and returns the completed job.

        ``timeout``: maximum time to wait in seconds; None sets no limit. After this time, StudioError with the code
        ``TIMEOUT`` is raised, and the job keeps running. Raises StudioError if the job fails or is canceled."""
        job_id = job.job_id
        timeout_at = None if timeout is None else clock.monotonic() + timeout
        while True:
            wait = POLL_SECONDS if timeout_at is None else min(POLL_SECONDS, max(0, timeout_at - clock.monotonic()))
            state: Any = await self._read_job(job_id, wait)
            if state["error"] is not None:
                error = state["error"]
                raise StudioError(error["code"], error["message"], job_id=job_id, body=state)
            if state["done"]:
                if state["result"] is None:
                    raise StudioError("MEDIA_DELETED", "The result of the job was deleted.", job_id=job_id)
                completed: CompletedJob[R] = state
                return completed
            if timeout_at is not None and clock.monotonic() >= timeout_at:
                message = f"The job did not end within {timeout} s; it is still running."
                raise StudioError("TIMEOUT", message, job_id=job_id)

    async def job(self, job: JobTicket[R]) -> Job[R]:
        """Returns the current state of a job."""
        state: Job[R] = await self._read_job(job.job_id, 0)
        return state

    async def events(self, job: JobTicket[R]) -> AsyncIterator[Job[R]]:
        """Yields the job each time it changes, until it has completed, failed or been canceled."""
        failures = 0
        while True:
            try:
                path = f"/api/v1/studio/jobs/{quote(job.job_id, safe='')}/events"
                async for data in self._stream("GET", path):
                    state: Job[R] = json.loads(data)
                    failures = 0
                    yield state
                    if state["done"]:
                        return
            except StudioError as error:
                if error.code != "CONNECTION_FAILED" or failures >= self._retries:
                    raise
            # The stream ended, but not the job. A new stream begins with the current state of the job.
            failures += 1
            await asyncio.sleep(RECONNECT_WAIT_S)

    async def cancel(self, job: JobTicket[R]) -> Job[R]:
        """Requests the cancellation of a job, and returns the job. It is still running if the provider has not
        confirmed the cancellation yet."""
        path = f"/api/v1/studio/jobs/{quote(job.job_id, safe='')}/cancel"
        state: Job[R] = (await self._send("POST", path)).json()["data"]
        return state

    async def resume(
        self,
        job: JobTicket[PipelineResult],
        changes: ResumePipelineRequest | None = None,
        *,
        idempotency_key: str | None = None,
    ) -> JobTicket[PipelineResult]:
        """Starts a new job that runs the steps of an ended pipeline that have no result. With ``from``, it runs that
        step and the steps after it once more; ``bodies`` replaces bodies of steps (docs/pipelines.md)."""
        path = f"jobs/{quote(job.job_id, safe='')}/resume"
        return JobTicket.of(await self._submit(path, changes or {}, idempotency_key))

    async def decide(
        self, job: JobTicket[R], step: str, decision: DecideStepRequest
    ) -> Job[R]:
        """Decides about a step that waits: approves it, with the chosen outputs or a changed body, or rejects it.
        Approving spends the credits that the job has reserved for the step. Returns the job."""
        path = f"/api/v1/studio/jobs/{quote(job.job_id, safe='')}/steps/{quote(step, safe='')}/decision"
        state: Job[R] = (await self._send("POST", path, json=decision)).json()["data"]
        return state

    async def jobs(self, filter: Mapping[str, Any] | None = None) -> AsyncIterator[Job[Any]]:
        """Lists the jobs of the organization, newest first. ``filter`` contains query parameters of
        ``GET /studio/jobs``."""
        async for job in self._pages("/api/v1/studio/jobs", "data", filter):
            yield job

    async def requests(self, filter: Mapping[str, Any] | None = None) -> AsyncIterator[RequestRecord]:
        """Lists the chats, embeddings and rejected requests of the organization, newest first. ``filter`` contains
        query parameters of ``GET /requests``."""
        async for request in self._pages("/api/v1/requests", "data", filter):
            yield request

    async def usage(self, filter: Mapping[str, Any] | None = None) -> AsyncIterator[UsageRecord]:
        """Lists the usage records of the organization, newest first. ``filter`` contains query parameters of
        ``GET /usage``."""
        async for record in self._pages("/api/v1/usage", "usage", filter):
            yield record

    async def files(self, filter: Mapping[str, Any] | None = None) -> AsyncIterator[File]:
        """Lists the stored files of the organization, newest first. ``filter`` contains query parameters of
        ``GET /storage/files``."""
        async for file in self._pages("/api/v1/storage/files", "data", filter):
            yield file

    async def chat(
        self, request: ChatRequest, *, idempotency_key: str | None = None
    ) -> ChatAnswer:
        """Sends a chat request, and returns the complete answer."""
        response = await self._send(
            "POST",
            "/api/v1/chat",
            json=request,
            idempotency_key=idempotency_key,
            timeout=CHAT_TIMEOUT_S,
        )
        answer: ChatAnswer = response.json()
        return answer

    async def chat_stream(
        self, request: ChatRequest, *, idempotency_key: str | None = None
    ) -> AsyncIterator[ChatEvent]:
        """Sends a chat request, and yields the answer as events of ``type`` ``delta``, then one of ``type`` ``done``.

        If the stream fails, yields the parts that were received, and then raises StudioError."""
        body = {**request, "stream": True}
        async for data in self._stream(
            "POST", "/api/v1/chat", json=body, idempotency_key=idempotency_key, timeout=CHAT_TIMEOUT_S
        ):
            if data == "[DONE]":
                return
            event = json.loads(data)
            if event["type"] == "error":
                raise build_error(event, None, None)
            yield event
        raise StudioError("CONNECTION_FAILED", "The stream ended before the answer was complete.")

    async def upload(
        self,
        file: Path | str | bytes | IO[bytes],
        *,
        filename: str | None = None,
        content_type: str | None = None,
    ) -> UploadUrl:
        """Uploads a file. ``file`` is a path, bytes, or an open binary file, which is read from its current position.

        Requests can refer to the file by the ``fileId`` or the ``url`` of the returned upload."""
        with UploadSource(file, filename, content_type) as source:
            description = {
                "filename": source.filename,
                "contentType": source.content_type,
                "size": source.size or None,
            }
            body = {name: value for name, value in description.items() if value is not None}
            response = await self._send("POST", "/api/v1/storage/upload-url", json=body)
            target: UploadUrl = response.json()
            try:
                await self._send_with_retries(
                    lambda: self._http.build_request(
                        "PUT",
                        target["uploadUrl"],
                        content=source.async_chunks(),
                        headers={**target["headers"], "Content-Length": str(source.size)},
                        timeout=TRANSFER_TIMEOUT_S,
                    )
                )
            except StudioError as error:
                # The upload URL accepts one file, and only this client has the URL. If the URL has already
                # received a file, an earlier attempt stored it, but its response was lost.
                if error.code != "ALREADY_UPLOADED" and error.status != 412:
                    raise
        return target

    async def _read_job(self, job_id: str, wait: float) -> Any:
        """Reads a job. The gateway responds when the job has ended, or after ``wait`` seconds."""
        path = f"/api/v1/studio/jobs/{quote(job_id, safe='')}"
        try:
            response = await self._send(
                "GET", path, params={"wait": wait}, timeout=self._timeout + wait
            )
        except StudioError as error:
            error.job_id = error.job_id or job_id
            raise
        return response.json()["data"]

    async def _pages(
        self, path: str, items: str, filter: Mapping[str, Any] | None
    ) -> AsyncIterator[Any]:
        query: dict[str, Any] = {"limit": PAGE_SIZE}
        for name, value in (filter or {}).items():
            if isinstance(value, Mapping):
                query.update({f"{name}[{key}]": entry for key, entry in value.items()})
            else:
                query[name] = value
        while True:
            page = await self.request("GET", path, params=query)
            for item in page[items]:
                yield item
            if page["nextCursor"] is None:
                return
            query["cursor"] = page["nextCursor"]
