"""Decides whether to retry a request, and builds the headers that all its attempts share."""

from __future__ import annotations

import random
import uuid

from ._errors import StudioError

#: Maximum Retry-After in seconds; a request with a longer one is not retried.
RETRY_AFTER_MAX_S = 60
FIRST_WAIT_S = 0.5

#: Statuses of responses after which a retry may succeed.
RETRYABLE_STATUSES = {408, 429, 502, 503, 504}
RETRYABLE_CODES = {"REQUEST_IN_PROGRESS", "UPLOAD_IN_PROGRESS", "Internal server error"}


def wait_before_retry(error: StudioError, retry_after: str | None, attempt: int) -> float | None:
    """Returns the seconds to wait before the next attempt; None if a retry cannot succeed. ``attempt`` is the
    number of the failed attempt, from 0."""
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
    """Builds the headers with the API key and, for a POST, an idempotency key, so that the gateway executes a
    retried request only once."""
    headers = {"Authorization": f"Bearer {api_key}"}
    if method == "POST":
        headers["Idempotency-Key"] = idempotency_key or str(uuid.uuid4())
    return headers
