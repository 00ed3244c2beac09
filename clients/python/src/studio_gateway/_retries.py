"""When a request is sent again, and how it is kept the same request."""

from __future__ import annotations

import random
import uuid

from ._errors import StudioError

#: A longer wait is the caller's decision.
RETRY_AFTER_MAX_S = 60
FIRST_WAIT_S = 0.5

#: Answers after which the same request may well succeed.
PASSING = {408, 429, 502, 503, 504}
PASSING_CODES = {"REQUEST_IN_PROGRESS", "UPLOAD_IN_PROGRESS", "Internal server error"}


def wait_before_retry(error: StudioError, retry_after: str | None, attempt: int) -> float | None:
    """Seconds until attempt ``attempt + 1`` (the first is 0); None: it would not help."""
    # A failed job stays failed: the key stands for that job.
    if error.job_id is not None:
        return None
    if error.status is not None and error.status not in PASSING and error.code not in PASSING_CODES:
        return None
    if retry_after is not None and retry_after.isdigit():
        seconds = int(retry_after)
        return seconds if seconds <= RETRY_AFTER_MAX_S else None
    # Not all who were turned away at once come back at once.
    return FIRST_WAIT_S * float(2**attempt) * random.uniform(0.5, 1.5)


def headers_of(method: str, api_key: str, idempotency_key: str | None) -> dict[str, str]:
    """With the key, and for what costs or creates a name of its own: a repeat is then the same request."""
    headers = {"Authorization": f"Bearer {api_key}"}
    if method == "POST":
        headers["Idempotency-Key"] = idempotency_key or str(uuid.uuid4())
    return headers
