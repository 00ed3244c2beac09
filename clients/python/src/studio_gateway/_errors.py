"""Defines the error class of the client."""

from __future__ import annotations

import json
from typing import Any


class StudioError(Exception):
    """Error for a rejected request, a failed or canceled job, or a request without a response."""

    def __init__(
        self,
        code: str,
        message: str,
        *,
        status: int | None = None,
        request_id: str | None = None,
        job_id: str | None = None,
        details: list[dict[str, str]] | None = None,
        body: Any = None,
    ) -> None:
        super().__init__(f"{code}: {message}")
        #: Error code of the gateway (docs/errors.md), ``CONNECTION_FAILED`` or ``TIMEOUT``.
        self.code = code
        self.message = message
        #: HTTP status. None if there was no response, or if a job failed after the gateway had accepted it.
        self.status = status
        self.request_id = request_id
        #: Id of the job that the error concerns. None if it does not concern a job.
        self.job_id = job_id
        #: Invalid fields of the request, each with its ``path`` and a ``message``.
        self.details = details or []
        #: Body of the response, with fields such as ``required`` and ``resetAt``.
        self.body = body


def build_error(body: Any, status: int | None, request_id: str | None) -> StudioError:
    """Builds the error that the body of an error response describes."""
    fields = body if isinstance(body, dict) else {}
    error = fields.get("error")
    # The field ``error`` is an object in responses of OpenAI-compatible endpoints, and the error code in others.
    nested_error = error if isinstance(error, dict) else {"code": error}
    code = nested_error.get("code") or f"HTTP_{status}"
    return StudioError(
        code,
        fields.get("message") or nested_error.get("message") or code,
        status=status,
        request_id=fields.get("requestId") or request_id,
        job_id=fields.get("jobId"),
        details=fields.get("details"),
        body=body,
    )


def parse_body(content: bytes) -> Any:
    """Parses a JSON body; returns None if it is not JSON."""
    try:
        return json.loads(content)
    except ValueError:
        return None
