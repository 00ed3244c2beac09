"""Decides about retries, and makes the headers that keep a retry the same request."""

from __future__ import annotations

import random
import uuid

from ._errors import StudioError

#: Longest Retry-After after which a request is retried, in seconds.
RETRY_AFTER_MAX_S = 60
FIRST_WAIT_S = 0.5

#: Statuses after which a retry can succeed.
RETRYABLE_STATUSES = {408, 429, 502, 503, 504}
RETRYABLE_CODES = {"REQUEST_IN_PROGRESS", "UPLOAD_IN_PROGRESS", "Internal server error"}


def wait_before_retry(error: StudioError, retry_after: str | None, attempt: int) -> float | None:
    """Returns the seconds until attempt ``attempt + 1`` (the first is 0); None if a retry cannot succeed."""
    # After a failed job a retry cannot succeed, because the idempotency key belongs to that job.
    if error.job_id is not None:
        return None
    if error.status is not None and error.status not in RETRYABLE_STATUSES and error.code not in RETRYABLE_CODES:
        return None
    if retry_after is not None and retry_after.isdigit():
        seconds = int(retry_after)
        return seconds if seconds <= RETRY_AFTER_MAX_S else None
    # The wait is random, so that many rejected clients do not return at the same time.
    return FIRST_WAIT_S * float(2**attempt) * random.uniform(0.5, 1.5)


def make_headers(method: str, api_key: str, idempotency_key: str | None) -> dict[str, str]:
    """Makes the headers with the key and, for a POST, an idempotency key, so that a retry is the same request."""
    headers = {"Authorization": f"Bearer {api_key}"}
    if method == "POST":
        headers["Idempotency-Key"] = idempotency_key or str(uuid.uuid4())
    return headers
