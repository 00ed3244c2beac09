# Made by `npm run dev -- clients`: change dev/clients/ or the asynchronous client instead.
"""Requests to the service: limited in time, and retried when that is safe."""

from __future__ import annotations

import time
import os
import re
from types import TracebackType
from typing import Any, Iterator, Callable, Mapping, Self

import httpx

from ._errors import StudioError, parse_body, make_error
from ._retries import make_headers, wait_before_retry


class Transport:
    """Sends requests with one key to one address."""

    def __init__(
        self,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        timeout: float = 60,
        retries: int = 2,
        http_client: httpx.Client | None = None,
    ) -> None:
        """``api_key``: default ``STUDIO_API_KEY``. ``base_url``: URL of the service, with or without
        ``/api/v1``; default ``STUDIO_API_URL``. ``timeout``: longest wait of an attempt for the next bytes of
        its response, in seconds. ``retries``: number of retries after no response or the status 408, 429, 502,
        503 or 504. ``http_client``: replaces the own client, for example to use a proxy.

        Raises ValueError without a key or an address."""
        self._api_key = _setting("api_key", api_key, "STUDIO_API_KEY")
        url = _setting("base_url", base_url, "STUDIO_API_URL")
        self._base_url = re.sub(r"(/api)?(/v1)?/*$", "", url)
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
        """Closes the connections."""
        self._http.close()

    def request(
        self,
        method: str,
        path: str,
        *,
        json: Any = None,
        params: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
    ) -> Any:
        """Calls any endpoint of the API by its path (``/api/v1/usage``), and returns the body of its response."""
        response = self._send(
            method, path, json=json, params=params, idempotency_key=idempotency_key
        )
        return response.json()

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
            headers={**make_headers(method, self._api_key, idempotency_key), **(headers or {})},
            timeout=self._timeout if timeout is None else timeout,
        )

    def _send(self, method: str, path: str, **options: Any) -> httpx.Response:
        request = self._build(method, path, **options)
        return self._attempts(lambda: request)

    def _attempts(
        self, build: Callable[[], httpx.Request], stream: bool = False
    ) -> httpx.Response:
        """Sends a request with retries, and returns its successful response. ``build`` makes the request of an
        attempt. The body has arrived, unless the response is a stream."""
        attempt = 0
        while True:
            retry_after = None
            cause: Exception | None = None
            request = build()
            try:
                response = self._http.send(request, stream=stream)
                if response.is_success:
                    return response
                content = response.read()
                retry_after = response.headers.get("retry-after")
                request_id = response.headers.get("x-request-id")
                error = make_error(parse_body(content), response.status_code, request_id)
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
            time.sleep(seconds)

    def _stream(self, method: str, path: str, **options: Any) -> Iterator[str]:
        """Yields the data of each event of a response."""
        request = self._build(method, path, **options)
        response = self._attempts(lambda: request, stream=True)
        try:
            # The service writes the data of an event in one line.
            for line in response.iter_lines():
                if line.startswith("data:"):
                    yield line[5:].strip()
        except httpx.TransportError as failure:
            raise StudioError("CONNECTION_FAILED", "The stream ended unexpectedly.") from failure
        finally:
            response.close()


def _setting(name: str, value: str | None, variable: str) -> str:
    found = value or os.environ.get(variable)
    if not found:
        raise ValueError(f"{name} is required: pass it, or set {variable}.")
    return found
