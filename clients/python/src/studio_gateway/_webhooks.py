"""Webhooks that the service sends, verified as Standard Webhooks says."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import time
from typing import Any, Mapping


def verify_webhook(
    body: bytes | str,
    headers: Mapping[str, str],
    secret: str,
    *,
    tolerance_seconds: float = 300,
) -> dict[str, Any]:
    """The event of a webhook that the service has signed just now.

    ``body``: as it came, not parsed. ``secret``: ``whsec_…`` of ``GET /api/v1/webhooks/secret``.
    Raises ValueError when the signature or the time is not right: answer 400 and do nothing.
    """
    content = body.encode() if isinstance(body, str) else body
    given = {name.lower(): value for name, value in headers.items()}
    names = ("webhook-id", "webhook-timestamp", "webhook-signature")
    if any(name not in given for name in names):
        raise ValueError(f"The webhook needs the headers {', '.join(names)}.")
    identity, timestamp, signatures = (given[name] for name in names)
    if not timestamp.isdigit() or abs(time.time() - int(timestamp)) > tolerance_seconds:
        raise ValueError("The webhook is too old, or from the future.")
    key = base64.b64decode(secret.removeprefix("whsec_"))
    signed = f"{identity}.{timestamp}.".encode() + content
    expected = hmac.new(key, signed, hashlib.sha256).digest()
    # While a secret is replaced there is a signature of each.
    for signature in signatures.split(" "):
        version, _, text = signature.partition(",")
        if version == "v1" and hmac.compare_digest(_bytes_of(text), expected):
            event: dict[str, Any] = json.loads(content)
            return event
    raise ValueError("No signature of the webhook is right.")


def _bytes_of(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""
