"""Verifies the webhooks of the service (Standard Webhooks)."""

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
    """Verifies the signature and the time of a webhook, and returns its event.

    ``body``: the raw body, not parsed. ``secret``: ``whsec_…`` of ``GET /api/v1/webhooks/secret``.
    Raises ValueError if the signature or the time is wrong; then respond with 400 and do nothing.
    """
    content = body.encode() if isinstance(body, str) else body
    received = {name.lower(): value for name, value in headers.items()}
    names = ("webhook-id", "webhook-timestamp", "webhook-signature")
    if any(name not in received for name in names):
        raise ValueError(f"The webhook needs the headers {', '.join(names)}.")
    identity, timestamp, signatures = (received[name] for name in names)
    if not timestamp.isdigit() or abs(time.time() - int(timestamp)) > tolerance_seconds:
        raise ValueError("The time of the webhook is too far from now.")
    key = base64.b64decode(secret.removeprefix("whsec_"))
    signed = f"{identity}.{timestamp}.".encode() + content
    expected = hmac.new(key, signed, hashlib.sha256).digest()
    # While the secret is being replaced, there is one signature for each secret.
    for signature in signatures.split(" "):
        version, _, text = signature.partition(",")
        if version == "v1" and hmac.compare_digest(_decode_base64(text), expected):
            event: dict[str, Any] = json.loads(content)
            return event
    raise ValueError("The webhook has no valid signature.")


def _decode_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""
