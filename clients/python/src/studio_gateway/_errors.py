"""What is raised: one class, told apart by ``code``."""

from __future__ import annotations

import json
from typing import Any


class StudioError(Exception):
    """A refusal, a job that failed or was canceled, or no answer at all."""

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
        #: A code of the service (docs/errors.md), ``CONNECTION_FAILED`` or ``TIMEOUT``.
        self.code = code
        self.message = message
        #: HTTP status; None without an answer, or when the job failed after it was accepted.
        self.status = status
        self.request_id = request_id
        #: The job that it is about, where there is one.
        self.job_id = job_id
        #: Fields at fault: ``path`` and ``message`` of each.
        self.details = details or []
        #: The whole body, with fields such as ``required`` and ``resetAt``.
        self.body = body


def error_of(body: Any, status: int | None, request_id: str | None) -> StudioError:
    """The error that a body tells of."""
    told = body if isinstance(body, dict) else {}
    error = told.get("error")
    # An object where OpenAI's shape is spoken.
    inner = error if isinstance(error, dict) else {"code": error}
    code = inner.get("code") or f"HTTP_{status}"
    return StudioError(
        code,
        told.get("message") or inner.get("message") or code,
        status=status,
        request_id=told.get("requestId") or request_id,
        job_id=told.get("jobId"),
        details=told.get("details"),
        body=body,
    )


def body_of(content: bytes) -> Any:
    """A JSON body; None when it is none."""
    try:
        return json.loads(content)
    except ValueError:
        return None
