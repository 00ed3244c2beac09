# Made by `npm run dev -- clients`: change dev/clients/ or the asynchronous client instead.
"""The methods that accept a capability, with the types of each capability."""

from __future__ import annotations

from typing import Any, Literal, Mapping, overload

from ._types import JobTicket
from .schemas import (
    AudioTranscribeRequest,
    AudioTranscribeResult,
    CompositionPlanOutput,
    DialogueGenerateRequest,
    DialogueGenerateResult,
    ImageBatchRequest,
    ImageBatchResult,
    ImageEditRequest,
    ImageEditResult,
    ImageGenerateRequest,
    ImageGenerateResult,
    ImageRemoveBackgroundRequest,
    ImageRemoveBackgroundResult,
    ImageUpscaleRequest,
    ImageUpscaleResult,
    MusicGenerateRequest,
    MusicGenerateResult,
    MusicPlanRequest,
    SfxGenerateRequest,
    SfxGenerateResult,
    StudioEstimate,
    VideoGenerateRequest,
    VideoGenerateResult,
    VideoRemoveBackgroundRequest,
    VideoRemoveBackgroundResult,
    VideoUpscaleRequest,
    VideoUpscaleResult,
    VoiceoverGenerateRequest,
    VoiceoverGenerateResult,
)


class AsyncRuns:
    async def _run(
        self, capability: str, input: Mapping[str, Any], timeout: float | None, key: str | None
    ) -> Any:
        raise NotImplementedError

    async def _submit(self, capability: str, input: Mapping[str, Any], key: str | None) -> str:
        raise NotImplementedError

    async def _estimate(self, capability: str, input: Mapping[str, Any]) -> StudioEstimate:
        raise NotImplementedError

    @overload
    async def run(
        self, capability: Literal["image/generate"], input: ImageGenerateRequest, *, timeout: float | None = None, idempotency_key: str | None = None,
    ) -> ImageGenerateResult: ...

    @overload
    async def run(
        self, capability: Literal["image/edit"], input: ImageEditRequest, *, timeout: float | None = None, idempotency_key: str | None = None,
    ) -> ImageEditResult: ...

    @overload
    async def run(
        self, capability: Literal["image/upscale"], input: ImageUpscaleRequest, *, timeout: float | None = None, idempotency_key: str | None = None,
    ) -> ImageUpscaleResult: ...

    @overload
    async def run(
        self, capability: Literal["image/remove-background"], input: ImageRemoveBackgroundRequest, *, timeout: float | None = None, idempotency_key: str | None = None,
    ) -> ImageRemoveBackgroundResult: ...

    @overload
    async def run(
        self, capability: Literal["image/batch"], input: ImageBatchRequest, *, timeout: float | None = None, idempotency_key: str | None = None,
    ) -> ImageBatchResult: ...

    @overload
    async def run(
        self, capability: Literal["video/generate"], input: VideoGenerateRequest, *, timeout: float | None = None, idempotency_key: str | None = None,
    ) -> VideoGenerateResult: ...

    @overload
    async def run(
        self, capability: Literal["video/upscale"], input: VideoUpscaleRequest, *, timeout: float | None = None, idempotency_key: str | None = None,
    ) -> VideoUpscaleResult: ...

    @overload
    async def run(
        self, capability: Literal["video/remove-background"], input: VideoRemoveBackgroundRequest, *, timeout: float | None = None, idempotency_key: str | None = None,
    ) -> VideoRemoveBackgroundResult: ...

    @overload
    async def run(
        self, capability: Literal["voiceover/generate"], input: VoiceoverGenerateRequest, *, timeout: float | None = None, idempotency_key: str | None = None,
    ) -> VoiceoverGenerateResult: ...

    @overload
    async def run(
        self, capability: Literal["dialogue/generate"], input: DialogueGenerateRequest, *, timeout: float | None = None, idempotency_key: str | None = None,
    ) -> DialogueGenerateResult: ...

    @overload
    async def run(
        self, capability: Literal["music/plan"], input: MusicPlanRequest, *, timeout: float | None = None, idempotency_key: str | None = None,
    ) -> CompositionPlanOutput: ...

    @overload
    async def run(
        self, capability: Literal["music/generate"], input: MusicGenerateRequest, *, timeout: float | None = None, idempotency_key: str | None = None,
    ) -> MusicGenerateResult: ...

    @overload
    async def run(
        self, capability: Literal["sfx/generate"], input: SfxGenerateRequest, *, timeout: float | None = None, idempotency_key: str | None = None,
    ) -> SfxGenerateResult: ...

    @overload
    async def run(
        self, capability: Literal["audio/transcribe"], input: AudioTranscribeRequest, *, timeout: float | None = None, idempotency_key: str | None = None,
    ) -> AudioTranscribeResult: ...

    async def run(
        self, capability: str, input: Any, *, timeout: float | None = None, idempotency_key: str | None = None,
    ) -> Any:
        """Submits a job, waits for its end, and returns its result.

        ``timeout``: seconds after which ``TIMEOUT`` is raised while the job continues; None: no limit.
        ``idempotency_key``: absent: a new key, which only the retries of this call share.
        Raises StudioError if the request is rejected, or the job fails or is canceled.
        """
        return await self._run(capability, input, timeout, idempotency_key)

    @overload
    async def submit(
        self, capability: Literal["image/generate"], input: ImageGenerateRequest, *, idempotency_key: str | None = None,
    ) -> JobTicket[ImageGenerateResult]: ...

    @overload
    async def submit(
        self, capability: Literal["image/edit"], input: ImageEditRequest, *, idempotency_key: str | None = None,
    ) -> JobTicket[ImageEditResult]: ...

    @overload
    async def submit(
        self, capability: Literal["image/upscale"], input: ImageUpscaleRequest, *, idempotency_key: str | None = None,
    ) -> JobTicket[ImageUpscaleResult]: ...

    @overload
    async def submit(
        self, capability: Literal["image/remove-background"], input: ImageRemoveBackgroundRequest, *, idempotency_key: str | None = None,
    ) -> JobTicket[ImageRemoveBackgroundResult]: ...

    @overload
    async def submit(
        self, capability: Literal["image/batch"], input: ImageBatchRequest, *, idempotency_key: str | None = None,
    ) -> JobTicket[ImageBatchResult]: ...

    @overload
    async def submit(
        self, capability: Literal["video/generate"], input: VideoGenerateRequest, *, idempotency_key: str | None = None,
    ) -> JobTicket[VideoGenerateResult]: ...

    @overload
    async def submit(
        self, capability: Literal["video/upscale"], input: VideoUpscaleRequest, *, idempotency_key: str | None = None,
    ) -> JobTicket[VideoUpscaleResult]: ...

    @overload
    async def submit(
        self, capability: Literal["video/remove-background"], input: VideoRemoveBackgroundRequest, *, idempotency_key: str | None = None,
    ) -> JobTicket[VideoRemoveBackgroundResult]: ...

    @overload
    async def submit(
        self, capability: Literal["voiceover/generate"], input: VoiceoverGenerateRequest, *, idempotency_key: str | None = None,
    ) -> JobTicket[VoiceoverGenerateResult]: ...

    @overload
    async def submit(
        self, capability: Literal["dialogue/generate"], input: DialogueGenerateRequest, *, idempotency_key: str | None = None,
    ) -> JobTicket[DialogueGenerateResult]: ...

    @overload
    async def submit(
        self, capability: Literal["music/plan"], input: MusicPlanRequest, *, idempotency_key: str | None = None,
    ) -> JobTicket[CompositionPlanOutput]: ...

    @overload
    async def submit(
        self, capability: Literal["music/generate"], input: MusicGenerateRequest, *, idempotency_key: str | None = None,
    ) -> JobTicket[MusicGenerateResult]: ...

    @overload
    async def submit(
        self, capability: Literal["sfx/generate"], input: SfxGenerateRequest, *, idempotency_key: str | None = None,
    ) -> JobTicket[SfxGenerateResult]: ...

    @overload
    async def submit(
        self, capability: Literal["audio/transcribe"], input: AudioTranscribeRequest, *, idempotency_key: str | None = None,
    ) -> JobTicket[AudioTranscribeResult]: ...

    async def submit(
        self, capability: str, input: Any, *, idempotency_key: str | None = None,
    ) -> Any:
        """Starts a job. Its credits are reserved when the method returns."""
        return JobTicket.of(await self._submit(capability, input, idempotency_key))

    @overload
    async def estimate(
        self, capability: Literal["image/generate"], input: ImageGenerateRequest,
    ) -> StudioEstimate: ...

    @overload
    async def estimate(
        self, capability: Literal["image/edit"], input: ImageEditRequest,
    ) -> StudioEstimate: ...

    @overload
    async def estimate(
        self, capability: Literal["image/upscale"], input: ImageUpscaleRequest,
    ) -> StudioEstimate: ...

    @overload
    async def estimate(
        self, capability: Literal["image/remove-background"], input: ImageRemoveBackgroundRequest,
    ) -> StudioEstimate: ...

    @overload
    async def estimate(
        self, capability: Literal["image/batch"], input: ImageBatchRequest,
    ) -> StudioEstimate: ...

    @overload
    async def estimate(
        self, capability: Literal["video/generate"], input: VideoGenerateRequest,
    ) -> StudioEstimate: ...

    @overload
    async def estimate(
        self, capability: Literal["video/upscale"], input: VideoUpscaleRequest,
    ) -> StudioEstimate: ...

    @overload
    async def estimate(
        self, capability: Literal["video/remove-background"], input: VideoRemoveBackgroundRequest,
    ) -> StudioEstimate: ...

    @overload
    async def estimate(
        self, capability: Literal["voiceover/generate"], input: VoiceoverGenerateRequest,
    ) -> StudioEstimate: ...

    @overload
    async def estimate(
        self, capability: Literal["dialogue/generate"], input: DialogueGenerateRequest,
    ) -> StudioEstimate: ...

    @overload
    async def estimate(
        self, capability: Literal["music/plan"], input: MusicPlanRequest,
    ) -> StudioEstimate: ...

    @overload
    async def estimate(
        self, capability: Literal["music/generate"], input: MusicGenerateRequest,
    ) -> StudioEstimate: ...

    @overload
    async def estimate(
        self, capability: Literal["sfx/generate"], input: SfxGenerateRequest,
    ) -> StudioEstimate: ...

    @overload
    async def estimate(
        self, capability: Literal["audio/transcribe"], input: AudioTranscribeRequest,
    ) -> StudioEstimate: ...

    async def estimate(
        self, capability: str, input: Any,
    ) -> Any:
        """Estimates the credits that ``submit`` would reserve, item by item. Nothing is started."""
        return await self._estimate(capability, input)
