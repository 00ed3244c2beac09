# Made by `npm run dev -- clients`: change dev/clients/ or _async_client.py instead.
"""The verb `run` with the types of each capability."""

from __future__ import annotations

from typing import Any, Literal, Mapping, overload

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
    VideoGenerateRequest,
    VideoGenerateResult,
    VideoRemoveBackgroundRequest,
    VideoRemoveBackgroundResult,
    VideoUpscaleRequest,
    VideoUpscaleResult,
    VoiceoverGenerateRequest,
    VoiceoverGenerateResult,
)


class Runs:
    def _run(
        self, capability: str, input: Mapping[str, Any], timeout: float | None, key: str | None
    ) -> Any:
        raise NotImplementedError

    @overload
    def run(
        self, capability: Literal["image/generate"], input: ImageGenerateRequest, *,
        timeout: float | None = None, idempotency_key: str | None = None,
    ) -> ImageGenerateResult: ...

    @overload
    def run(
        self, capability: Literal["image/edit"], input: ImageEditRequest, *,
        timeout: float | None = None, idempotency_key: str | None = None,
    ) -> ImageEditResult: ...

    @overload
    def run(
        self, capability: Literal["image/upscale"], input: ImageUpscaleRequest, *,
        timeout: float | None = None, idempotency_key: str | None = None,
    ) -> ImageUpscaleResult: ...

    @overload
    def run(
        self, capability: Literal["image/remove-background"], input: ImageRemoveBackgroundRequest, *,
        timeout: float | None = None, idempotency_key: str | None = None,
    ) -> ImageRemoveBackgroundResult: ...

    @overload
    def run(
        self, capability: Literal["image/batch"], input: ImageBatchRequest, *,
        timeout: float | None = None, idempotency_key: str | None = None,
    ) -> ImageBatchResult: ...

    @overload
    def run(
        self, capability: Literal["video/generate"], input: VideoGenerateRequest, *,
        timeout: float | None = None, idempotency_key: str | None = None,
    ) -> VideoGenerateResult: ...

    @overload
    def run(
        self, capability: Literal["video/upscale"], input: VideoUpscaleRequest, *,
        timeout: float | None = None, idempotency_key: str | None = None,
    ) -> VideoUpscaleResult: ...

    @overload
    def run(
        self, capability: Literal["video/remove-background"], input: VideoRemoveBackgroundRequest, *,
        timeout: float | None = None, idempotency_key: str | None = None,
    ) -> VideoRemoveBackgroundResult: ...

    @overload
    def run(
        self, capability: Literal["voiceover/generate"], input: VoiceoverGenerateRequest, *,
        timeout: float | None = None, idempotency_key: str | None = None,
    ) -> VoiceoverGenerateResult: ...

    @overload
    def run(
        self, capability: Literal["dialogue/generate"], input: DialogueGenerateRequest, *,
        timeout: float | None = None, idempotency_key: str | None = None,
    ) -> DialogueGenerateResult: ...

    @overload
    def run(
        self, capability: Literal["music/plan"], input: MusicPlanRequest, *,
        timeout: float | None = None, idempotency_key: str | None = None,
    ) -> CompositionPlanOutput: ...

    @overload
    def run(
        self, capability: Literal["music/generate"], input: MusicGenerateRequest, *,
        timeout: float | None = None, idempotency_key: str | None = None,
    ) -> MusicGenerateResult: ...

    @overload
    def run(
        self, capability: Literal["sfx/generate"], input: SfxGenerateRequest, *,
        timeout: float | None = None, idempotency_key: str | None = None,
    ) -> SfxGenerateResult: ...

    @overload
    def run(
        self, capability: Literal["audio/transcribe"], input: AudioTranscribeRequest, *,
        timeout: float | None = None, idempotency_key: str | None = None,
    ) -> AudioTranscribeResult: ...

    def run(
        self, capability: str, input: Any, *,
        timeout: float | None = None, idempotency_key: str | None = None,
    ) -> Any:
        """Runs a capability to its end and returns its result.

        `timeout`: seconds until this program stops waiting (the job goes on); absent: the job's own end.
        `idempotency_key`: a name of your own for this call; absent: a new one, used for retries only.
        Raises StudioError when the request is refused, or the job fails or is canceled.
        """
        return self._run(capability, input, timeout, idempotency_key)


class AsyncRuns:
    async def _run(
        self, capability: str, input: Mapping[str, Any], timeout: float | None, key: str | None
    ) -> Any:
        raise NotImplementedError

    @overload
    async def run(
        self, capability: Literal["image/generate"], input: ImageGenerateRequest, *,
        timeout: float | None = None, idempotency_key: str | None = None,
    ) -> ImageGenerateResult: ...

    @overload
    async def run(
        self, capability: Literal["image/edit"], input: ImageEditRequest, *,
        timeout: float | None = None, idempotency_key: str | None = None,
    ) -> ImageEditResult: ...

    @overload
    async def run(
        self, capability: Literal["image/upscale"], input: ImageUpscaleRequest, *,
        timeout: float | None = None, idempotency_key: str | None = None,
    ) -> ImageUpscaleResult: ...

    @overload
    async def run(
        self, capability: Literal["image/remove-background"], input: ImageRemoveBackgroundRequest, *,
        timeout: float | None = None, idempotency_key: str | None = None,
    ) -> ImageRemoveBackgroundResult: ...

    @overload
    async def run(
        self, capability: Literal["image/batch"], input: ImageBatchRequest, *,
        timeout: float | None = None, idempotency_key: str | None = None,
    ) -> ImageBatchResult: ...

    @overload
    async def run(
        self, capability: Literal["video/generate"], input: VideoGenerateRequest, *,
        timeout: float | None = None, idempotency_key: str | None = None,
    ) -> VideoGenerateResult: ...

    @overload
    async def run(
        self, capability: Literal["video/upscale"], input: VideoUpscaleRequest, *,
        timeout: float | None = None, idempotency_key: str | None = None,
    ) -> VideoUpscaleResult: ...

    @overload
    async def run(
        self, capability: Literal["video/remove-background"], input: VideoRemoveBackgroundRequest, *,
        timeout: float | None = None, idempotency_key: str | None = None,
    ) -> VideoRemoveBackgroundResult: ...

    @overload
    async def run(
        self, capability: Literal["voiceover/generate"], input: VoiceoverGenerateRequest, *,
        timeout: float | None = None, idempotency_key: str | None = None,
    ) -> VoiceoverGenerateResult: ...

    @overload
    async def run(
        self, capability: Literal["dialogue/generate"], input: DialogueGenerateRequest, *,
        timeout: float | None = None, idempotency_key: str | None = None,
    ) -> DialogueGenerateResult: ...

    @overload
    async def run(
        self, capability: Literal["music/plan"], input: MusicPlanRequest, *,
        timeout: float | None = None, idempotency_key: str | None = None,
    ) -> CompositionPlanOutput: ...

    @overload
    async def run(
        self, capability: Literal["music/generate"], input: MusicGenerateRequest, *,
        timeout: float | None = None, idempotency_key: str | None = None,
    ) -> MusicGenerateResult: ...

    @overload
    async def run(
        self, capability: Literal["sfx/generate"], input: SfxGenerateRequest, *,
        timeout: float | None = None, idempotency_key: str | None = None,
    ) -> SfxGenerateResult: ...

    @overload
    async def run(
        self, capability: Literal["audio/transcribe"], input: AudioTranscribeRequest, *,
        timeout: float | None = None, idempotency_key: str | None = None,
    ) -> AudioTranscribeResult: ...

    async def run(
        self, capability: str, input: Any, *,
        timeout: float | None = None, idempotency_key: str | None = None,
    ) -> Any:
        """Runs a capability to its end and returns its result.

        `timeout`: seconds until this program stops waiting (the job goes on); absent: the job's own end.
        `idempotency_key`: a name of your own for this call; absent: a new one, used for retries only.
        Raises StudioError when the request is refused, or the job fails or is canceled.
        """
        return await self._run(capability, input, timeout, idempotency_key)
