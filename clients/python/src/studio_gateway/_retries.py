"""Decides whether to retry a request, and builds the headers that all its attempts share."""

from __future__ import annotations

import random
import uuid

from ._errors import StudioError

#: Maximum value of Retry-After in seconds. A request is not retried if the response demands a longer wait.
RETRY_AFTER_MAX_S = 60
FIRST_WAIT_S = 0.5

#: HTTP statuses after which a retry may succeed.
RETRYABLE_STATUSES = {408, 429, 502, 503, 504}
RETRYABLE_CODES = {"REQUEST_IN_PROGRESS", "UPLOAD_IN_PROGRESS", "Internal server error"}


def wait_before_retry(error: StudioError, retry_after: str | None, attempt: int) -> float | None:
    """Returns the seconds to wait before the next attempt. Returns None if a retry cannot succeed. ``attempt`` is
    the number of the failed attempt, starting at 0."""
    # The error of a failed job is final, because a retry with the same idempotency key returns the same job.
    if error.job_id is not None:
        return None
    if error.status is not None and error.status not in RETRYABLE_STATUSES and error.code not in RETRYABLE_CODES:
        return None
    if retry_after is not None and retry_after.isdigit():
        seconds = int(retry_after)
        return seconds if seconds <= RETRY_AFTER_MAX_S else None
    # The wait is random, so that many clients do not retry at the same time.
    return FIRST_WAIT_S * float(2**attempt) * random.uniform(0.5, 1.5)


def build_headers(method: str, api_key: str, idempotency_key: str | None) -> dict[str, str]:
    """Builds the headers with the API key. A POST request also has an idempotency key, so that the gateway executes
    a retried request only once."""
    headers = {"Authorization": f"Bearer {api_key}"}
    if method == "POST":
        headers["Idempotency-Key"] = idempotency_key or str(uuid.uuid4())
    return headers
