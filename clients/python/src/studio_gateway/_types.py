"""Types of jobs, bulk jobs and streamed chats, in addition to the generated ``schemas``."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, AsyncIterable, Generic, Iterable, Literal, TypeAlias, TypedDict, TypeVar

from .schemas import BulkEstimateInvalidItem, BulkResultFields, JobFields, TokenUsage

R = TypeVar("R")
T = TypeVar("T")

#: Items of a bulk job. All of them are sent before the gateway starts any.
BulkItems: TypeAlias = Iterable[T]
AsyncBulkItems: TypeAlias = Iterable[T] | AsyncIterable[T]


@dataclass(frozen=True)
class JobTicket(Generic[R]):
    """Reference to a submitted job; ``R`` is the type of its result."""

    job_id: str

    @staticmethod
    def of(job_id: str) -> JobTicket[Any]:
        """Creates the ticket for the id of a job, for example an id that your program stored."""
        return JobTicket(job_id)


class Job(JobFields, Generic[R]):
    """Job in the format of ``GET /api/v1/studio/jobs/{jobId}``."""

    #: Result of the job. None until the job is completed.
    result: R | None


class CompletedJob(JobFields, Generic[R]):
    """Completed job."""

    result: R


@dataclass(frozen=True)
class BulkTicket(Generic[R]):
    """Reference to a bulk job; ``R`` is the type of its results."""

    bulk_id: str
    #: Items that ``skipInvalid`` left out.
    invalid_items: list[BulkEstimateInvalidItem] = field(default_factory=list)


class BulkResult(BulkResultFields, Generic[R]):
    """Result of an item of a bulk job."""

    #: None unless ``status`` is ``completed``.
    data: R | None


class ChatDelta(TypedDict):
    """Event with the next part of a streamed answer."""

    type: Literal["delta"]
    id: str
    model: str
    delta: str


class ChatDone(TypedDict):
    """Last event of a streamed answer."""

    type: Literal["done"]
    id: str
    model: str
    finishReason: str | None
    usage: TokenUsage
    creditsConsumed: float | None


#: Any event of a streamed answer.
ChatEvent = ChatDelta | ChatDone
