# Made by `npm run dev -- clients`: change dev/clients/ or _async_client.py instead.
"""The client: the service's verbs over its OpenAPI description."""

from __future__ import annotations

import time
import json
import mimetypes
import time as clock
from pathlib import Path
from types import TracebackType
from typing import Any, Iterator, Mapping, Self
from urllib.parse import quote

import httpx

from ._errors import StudioError, body_of, error_of
from ._retries import headers_of, wait_before_retry
from ._runs import Runs
from .schemas import Capability, ChatAnswer, JobOutput, StudioEstimate, UploadUrl

#: The service holds a poll this long.
POLL_SECONDS = 20
#: A model may think for minutes before it answers.
CHAT_TIMEOUT_S = 600
TRANSFER_TIMEOUT_S = 900
RECONNECT_WAIT_S = 0.5


class StudioGateway(Runs):
    """See README.md. Every verb raises StudioError."""

    def __init__(
        self,
        api_key: str,
        base_url: str,
        *,
        timeout: float = 60,
        retries: int = 2,
        http_client: httpx.Client | None = None,
    ) -> None:
        """``base_url``: without ``/api/v1``. ``timeout``: seconds that one attempt may wait for the next
        bytes of its answer. ``retries``: how often a request is sent again after no answer, 429, 502,
        503, 504. ``http_client``: instead of one of its own, for proxies and the like."""
        self._api_key = api_key
        self._base_url = base_url.rstrip("/")
        self._timeout = timeout
        self._retries = retries
        self._http = http_client or httpx.Client()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes its connections."""
        self._http.close()

    def _run(
        self, capability: str, input: Mapping[str, Any], timeout: float | None, key: str | None
    ) -> Any:
        job_id = self.submit(capability, input, idempotency_key=key)
        return (self.wait(job_id, timeout=timeout))["result"]

    def submit(
        self,
        capability: Capability | str,
        input: Mapping[str, Any],
        *,
        idempotency_key: str | None = None,
    ) -> str:
        """Starts a job and returns its id; its credits are reserved then."""
        answer = self._send(
            "POST",
            f"/api/v1/studio/{capability}",
            json=input,
            headers={"Prefer": "respond-async"},
            idempotency_key=idempotency_key,
        )
        # A repeat of a request whose job is done is answered with its result: only the header names it.
        return answer.headers["x-job-id"]

    def estimate(self, capability: Capability | str, input: Mapping[str, Any]) -> StudioEstimate:
        """What ``submit`` would reserve, and what that is made of; nothing is started."""
        answer = self._send("POST", f"/api/v1/studio/{capability}/estimate", json=input)
        estimate: StudioEstimate = answer.json()["data"]
        return estimate

    def wait(self, job_id: str, *, timeout: float | None = None) -> JobOutput:
        """Waits for the end of a job and returns it completed; a job that failed or was canceled is raised.

        ``timeout``: seconds until ``TIMEOUT`` is raised, while the job goes on; None: the job's own end."""
        ends_at = None if timeout is None else clock.monotonic() + timeout
        while True:
            left = POLL_SECONDS if ends_at is None else max(0, ends_at - clock.monotonic())
            job = self._look(job_id, min(POLL_SECONDS, left))
            if job["error"] is not None:
                error = job["error"]
                raise StudioError(error["code"], error["message"], job_id=job_id, body=job)
            if job["done"]:
                return job
            if ends_at is not None and clock.monotonic() >= ends_at:
                raise StudioError("TIMEOUT", f"The job is not done within {timeout} s.", job_id=job_id)

    def job(self, job_id: str) -> JobOutput:
        """A job as it is now."""
        return self._look(job_id, 0)

    def events(self, job_id: str) -> Iterator[JobOutput]:
        """The job each time it has changed, the last time when it is done, however it ended."""
        broken = 0
        while True:
            try:
                path = f"/api/v1/studio/jobs/{quote(job_id, safe='')}/events"
                for data in self._stream("GET", path):
                    job: JobOutput = json.loads(data)
                    broken = 0
                    yield job
                    if job["done"]:
                        return
            except StudioError as error:
                if error.code != "CONNECTION_FAILED" or broken >= self._retries:
                    raise
            # The stream ended before the job: it begins again with the job as it is.
            broken += 1
            time.sleep(RECONNECT_WAIT_S)

    def cancel(self, job_id: str) -> JobOutput:
        """Asks for the end of a job and returns it as it is then: what the provider says decides."""
        path = f"/api/v1/studio/jobs/{quote(job_id, safe='')}/cancel"
        job: JobOutput = (self._send("POST", path)).json()["data"]
        return job

    def chat(
        self, request: Mapping[str, Any], *, idempotency_key: str | None = None
    ) -> ChatAnswer:
        """A whole answer of a model; ``request`` is a ``schemas.ChatRequest``."""
        response = self._send(
            "POST",
            "/api/v1/chat",
            json=request,
            idempotency_key=idempotency_key,
            timeout=CHAT_TIMEOUT_S,
        )
        answer: ChatAnswer = response.json()
        return answer

    def chat_stream(
        self, request: Mapping[str, Any], *, idempotency_key: str | None = None
    ) -> Iterator[dict[str, Any]]:
        """An answer as it comes: events of ``type`` ``delta``, then ``done`` with usage and cost.

        An answer that breaks off is raised after what there was of it."""
        body = {**request, "stream": True}
        for data in self._stream(
            "POST", "/api/v1/chat", json=body, idempotency_key=idempotency_key, timeout=CHAT_TIMEOUT_S
        ):
            if data == "[DONE]":
                return
            event = json.loads(data)
            if event["type"] == "error":
                raise error_of(event, None, None)
            yield event
        raise StudioError("CONNECTION_FAILED", "The stream ended before the answer.")

    def upload(
        self,
        file: Path | str | bytes,
        *,
        filename: str | None = None,
        content_type: str | None = None,
    ) -> UploadUrl:
        """Uploads a file (a path, or the bytes themselves); ``fileId`` and ``url`` are for requests."""
        content = file if isinstance(file, bytes) else Path(file).read_bytes()
        name = filename if isinstance(file, bytes) else filename or Path(file).name
        content_type = content_type or (mimetypes.guess_type(name)[0] if name else None)
        wanted = {"filename": name, "contentType": content_type, "size": len(content) or None}
        target: UploadUrl = (
            self._send(
                "POST",
                "/api/v1/storage/upload-url",
                json={key: value for key, value in wanted.items() if value is not None},
            )
        ).json()
        try:
            self._attempts(
                self._http.build_request(
                    "PUT",
                    target["uploadUrl"],
                    content=content,
                    headers=target["headers"],
                    timeout=TRANSFER_TIMEOUT_S,
                )
            )
        except StudioError as error:
            # The URL is ours alone and takes one file: an attempt without an answer has brought it there.
            if error.code != "ALREADY_UPLOADED" and error.status != 412:
                raise
        return target

    def request(
        self,
        method: str,
        path: str,
        *,
        json: Any = None,
        params: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
    ) -> Any:
        """Any endpoint of the API by its path (``/api/v1/usage``): the body of its answer."""
        answer = self._send(
            method, path, json=json, params=params, idempotency_key=idempotency_key
        )
        return answer.json()

    def _look(self, job_id: str, wait: float) -> JobOutput:
        path = f"/api/v1/studio/jobs/{quote(job_id, safe='')}"
        # The answer comes after the wait at the latest.
        timeout = self._timeout + wait
        answer = self._send("GET", path, params={"wait": wait}, timeout=timeout)
        job: JobOutput = answer.json()["data"]
        return job

    def _build(
        self,
        method: str,
        path: str,
        *,
        json: Any = None,
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> httpx.Request:
        return self._http.build_request(
            method,
            f"{self._base_url}{path}",
            json=json,
            params=params,
            headers={**headers_of(method, self._api_key, idempotency_key), **(headers or {})},
            timeout=self._timeout if timeout is None else timeout,
        )

    def _send(self, method: str, path: str, **options: Any) -> httpx.Response:
        return self._attempts(self._build(method, path, **options))

    def _attempts(self, request: httpx.Request, stream: bool = False) -> httpx.Response:
        """A successful answer, read to its end unless it is a stream."""
        attempt = 0
        while True:
            retry_after = None
            cause: Exception | None = None
            try:
                response = self._http.send(request, stream=stream)
                if response.is_success:
                    return response
                content = response.read()
                retry_after = response.headers.get("retry-after")
                request_id = response.headers.get("x-request-id")
                error = error_of(body_of(content), response.status_code, request_id)
            except httpx.TimeoutException as failure:
                cause = failure
                error = StudioError("TIMEOUT", f"No answer in time from {request.url.host}.")
            except httpx.TransportError as failure:
                cause = failure
                error = StudioError("CONNECTION_FAILED", f"{request.url.host} cannot be reached.")
            seconds = wait_before_retry(error, retry_after, attempt)
            if attempt >= self._retries or seconds is None:
                raise error from cause
            attempt += 1
            time.sleep(seconds)

    def _stream(self, method: str, path: str, **options: Any) -> Iterator[str]:
        """The data of each event of an answer."""
        response = self._attempts(self._build(method, path, **options), stream=True)
        try:
            # One line of data each: this is how the service writes them.
            for line in response.iter_lines():
                if line.startswith("data:"):
                    yield line[5:].strip()
        except httpx.TransportError as failure:
            raise StudioError("CONNECTION_FAILED", "The stream ended unexpectedly.") from failure
        finally:
            response.close()
