"""Verifies webhooks of the gateway (Standard Webhooks)."""

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
    """Verifies the signature and the timestamp of a webhook, and returns its event.

    ``body`` is the raw body, before it is parsed. ``secret`` (``whsec_…``) is from
    ``GET /api/v1/webhooks/secret``. Raises ValueError if the secret, the signature or the timestamp is
    invalid. Then respond with status 400 and ignore the webhook.
    """
    # Anyone can sign with an empty key, so a program without its secret must not accept a signature.
    key = _decode_base64((secret or "").strip().removeprefix("whsec_"))
    if key == b"":
        raise ValueError("secret must be whsec_ and base64 text, as GET /api/v1/webhooks/secret returns it.")
    content = body.encode() if isinstance(body, str) else body
    headers_by_name = {name.lower(): value for name, value in headers.items()}
    names = ("webhook-id", "webhook-timestamp", "webhook-signature")
    if any(name not in headers_by_name for name in names):
        raise ValueError(f"The webhook must have the headers {', '.join(names)}.")
    webhook_id, timestamp, signatures = (headers_by_name[name] for name in names)
    if not timestamp.isdigit() or abs(time.time() - int(timestamp)) > tolerance_seconds:
        raise ValueError(f"The webhook's timestamp differs from the current time by more than {tolerance_seconds} s.")
    signed_content = f"{webhook_id}.{timestamp}.".encode() + content
    expected = hmac.new(key, signed_content, hashlib.sha256).digest()
    # While secrets are being replaced, the header has one signature for each secret that is still valid.
    for versioned in signatures.split(" "):
        version, _, signature = versioned.partition(",")
        if version == "v1" and hmac.compare_digest(_decode_base64(signature), expected):
            event: dict[str, Any] = json.loads(content)
            return event
    raise ValueError("The webhook has no valid signature.")


def _decode_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""
