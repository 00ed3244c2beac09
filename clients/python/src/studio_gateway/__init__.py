"""Client of the Studio Gateway; README.md shows every verb."""

from . import schemas
from ._async_client import AsyncStudioGateway
from ._client import StudioGateway
from ._errors import StudioError
from ._webhooks import verify_webhook

__all__ = ["AsyncStudioGateway", "StudioError", "StudioGateway", "schemas", "verify_webhook"]
