"""Sends requests with a timeout, and retries them if a retry is safe."""

from __future__ import annotations

import asyncio
import os
import re
from types import TracebackType
from typing import Any, AsyncIterator, Callable, Mapping, Self

import httpx

from ._errors import StudioError, build_error, parse_body
from ._retries import build_headers, wait_before_retry


#: Time in seconds before a broken stream is read again.
RECONNECT_WAIT_S = 0.5


class AsyncTransport:
    """Sends requests to one base URL with one API key."""

    def __init__(
        self,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        timeout: float = 60,
        retries: int = 2,
        http_client: httpx.AsyncClient | None = None,
    ) -> None:
        """``api_key`` defaults to the environment variable ``STUDIO_API_KEY``. ``base_url`` is the URL of the
        gateway, with or without ``/api/v1``, and defaults to ``STUDIO_API_URL``. ``timeout`` is the maximum time
        in seconds that an attempt waits for the next bytes of its response. ``retries`` is the maximum number of
        retries. A request is retried after failures that may be temporary, such as no response or status 429 or
        503, unless ``Retry-After`` exceeds 60 seconds. ``http_client`` replaces the default client, for example
        to use a proxy.

        Raises ValueError if the API key or the URL is missing."""
        self._api_key = _require_setting("api_key", api_key, "STUDIO_API_KEY")
        url = _require_setting("base_url", base_url, "STUDIO_API_URL")
        self._base_url = re.sub(r"(/api)?(/v1)?/*$", "", url)
        self._timeout = timeout
        self._retries = retries
        self._http = http_client or httpx.AsyncClient()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Closes the connections."""
        await self._http.aclose()

    async def request(
        self,
        method: str,
        path: str,
        *,
        json: Any = None,
        params: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
    ) -> Any:
        """Calls any endpoint of the API by its path (``/api/v1/usage``), and returns the body of its response."""
        response = await self._send(
            method, path, json=json, params=params, idempotency_key=idempotency_key
        )
        return response.json()

    def _build(
        self,
        method: str,
        path: str,
        *,
        json: Any = None,
        content: bytes | None = None,
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> httpx.Request:
        return self._http.build_request(
            method,
            f"{self._base_url}{path}",
            json=json,
            content=content,
            params=params,
            headers={**build_headers(method, self._api_key, idempotency_key), **(headers or {})},
            timeout=self._timeout if timeout is None else timeout,
        )

    async def _send(self, method: str, path: str, **options: Any) -> httpx.Response:
        request = self._build(method, path, **options)
        return await self._send_with_retries(lambda: request)

    async def _send_with_retries(
        self, build: Callable[[], httpx.Request], stream: bool = False
    ) -> httpx.Response:
        """Sends a request with retries, and returns its successful response. ``build`` returns the request for
        each attempt. The body has been received, unless ``stream`` is true."""
        attempt = 0
        while True:
            retry_after = None
            cause: Exception | None = None
            request = build()
            try:
                response = await self._http.send(request, stream=stream)
                if response.is_success:
                    return response
                content = await response.aread()
                retry_after = response.headers.get("retry-after")
                request_id = response.headers.get("x-request-id")
                error = build_error(parse_body(content), response.status_code, request_id)
            except httpx.TimeoutException as failure:
                cause = failure
                error = StudioError("TIMEOUT", f"No response in time from {request.url.host}.")
            except httpx.TransportError as failure:
                cause = failure
                error = StudioError("CONNECTION_FAILED", f"{request.url.host} cannot be reached.")
            seconds = wait_before_retry(error, retry_after, attempt)
            if attempt >= self._retries or seconds is None:
                raise error from cause
            attempt += 1
            await asyncio.sleep(seconds)

    async def _stream(self, method: str, path: str, **options: Any) -> AsyncIterator[str]:
        """Sends a request, and yields the data of each server-sent event of its response."""
        # The gateway writes the data of each event on one line.
        async for line in self._stream_lines(method, path, **options):
            if line.startswith("data:"):
                yield line[5:].strip()

    async def _stream_lines(self, method: str, path: str, **options: Any) -> AsyncIterator[str]:
        """Sends a request, and yields the lines of its response that are not empty."""
        request = self._build(method, path, **options)
        response = await self._send_with_retries(lambda: request, stream=True)
        try:
            # httpx would also split lines at U+2028 and similar characters, which answers may contain.
            rest = b""
            async for chunk in response.aiter_bytes():
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    if line.strip():
                        yield line.decode()
            if rest.strip():
                yield rest.decode()
        except httpx.TransportError as failure:
            raise StudioError("CONNECTION_FAILED", "The stream ended unexpectedly.") from failure
        finally:
            await response.aclose()


def _require_setting(name: str, value: str | None, variable: str) -> str:
    found = value or os.environ.get(variable)
    if not found:
        raise ValueError(f"{name} is required: pass it, or set {variable}.")
    return found
