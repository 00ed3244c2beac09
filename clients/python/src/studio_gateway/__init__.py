"""Client of the Studio Gateway (README.md)."""

from . import schemas
from ._async_client import AsyncStudioGateway
from ._client import StudioGateway
from ._errors import StudioError
from ._types import (
    BulkResult,
    BulkTicket,
    ChatDelta,
    ChatDone,
    ChatEvent,
    CompletedJob,
    Job,
    JobTicket,
)
from ._webhooks import verify_webhook

__all__ = [
    "AsyncStudioGateway",
    "BulkResult",
    "BulkTicket",
    "ChatDelta",
    "ChatDone",
    "ChatEvent",
    "CompletedJob",
    "Job",
    "JobTicket",
    "StudioError",
    "StudioGateway",
    "schemas",
    "verify_webhook",
]
