# Made by `npm run dev -- clients` from the OpenAPI description.

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypeAlias, TypedDict


class Section(TypedDict):
    section_name: str
    positive_local_styles: NotRequired[list[str]]
    negative_local_styles: NotRequired[list[str]]
    duration_ms: int
    lines: NotRequired[list[str]]


class CompositionPlan(TypedDict):
    positive_global_styles: NotRequired[list[str]]
    negative_global_styles: NotRequired[list[str]]
    sections: list[Section]


class KeyLimit(TypedDict):
    credits: float
    per: Literal['day', 'week', 'month', 'total']


class Progress(TypedDict):
    queuePosition: int | None
    share: float | None
    etaSeconds: int | None


class Error(TypedDict):
    code: Literal['Unauthorized', 'FORBIDDEN', 'ORGANIZATION_SUSPENDED', 'STORAGE_QUOTA_EXCEEDED', 'INVALID_REQUEST', 'UNKNOWN_MODEL', 'UNSUPPORTED_PARAMETER', 'CONFLICTING_FIELDS', 'INVALID_INPUT_URL', 'KEY_QUOTA_REACHED', 'NOT_FOUND', 'JOB_NOT_FOUND', 'METHOD_NOT_ALLOWED', 'MEDIA_DELETED', 'REQUEST_TIMEOUT', 'JOB_ALREADY_DONE', 'JOB_NOT_REFUNDABLE', 'JOB_NOT_DONE', 'KEY_ALREADY_CREATED', 'ANSWER_NOT_KEPT', 'JOB_RUNNING', 'OUTCOME_UNDECIDED', 'KEY_ALREADY_REPLACED', 'REQUEST_IN_PROGRESS', 'UPLOAD_IN_PROGRESS', 'ALREADY_UPLOADED', 'PAYLOAD_TOO_LARGE', 'FILE_TOO_LARGE', 'UNSUPPORTED_MEDIA_TYPE', 'IDEMPOTENCY_KEY_REUSED', 'INSUFFICIENT_CREDITS', 'KEY_LIMIT_EXCEEDED', 'WINDOW_LIMIT_EXCEEDED', 'Rate limit exceeded. Please slow down.', 'WINDOW_EXHAUSTED', 'CONTEXT_LENGTH_EXCEEDED', 'PROVIDER_REJECTED_INPUT', 'CONTENT_POLICY', 'PROVIDER_ERROR', 'STORAGE_ERROR', 'DEADLINE_EXCEEDED', 'OUTCOME_UNKNOWN', 'CANCELED', 'JOB_LOST', 'SERVICE_UNAVAILABLE', 'Internal server error']
    message: str
    retryable: bool


class Billing(TypedDict):
    state: Literal['reserved', 'charged', 'released']
    reserved: float
    charged: float
    refunded: float


class Job(TypedDict):
    jobId: str
    keyId: str
    type: str
    model: str | None
    provider: str
    prompt: str | None
    status: Literal['queued', 'in_progress', 'completed', 'failed', 'canceled']
    done: bool
    phase: Literal['queued', 'waiting_for_provider', 'submitting', 'generating', 'storing', 'verifying_outcome', 'done']
    progress: Progress | None
    createdAt: str
    startedAt: str | None
    completedAt: str | None
    deadlineAt: str
    result: dict[str, Any] | None
    mediaDeletedAt: str | None
    error: Error | None
    billing: Billing
    metadata: dict[str, str]
    requestId: str
    statusUrl: str
    cancelUrl: str


class TokenUsage(TypedDict):
    inputTokens: int
    outputTokens: int
    totalTokens: int
    cachedInputTokens: NotRequired[int]
    cacheWriteTokens: NotRequired[int]
    reasoningTokens: NotRequired[int]


class Detail(TypedDict):
    path: str
    message: str


class Error1(TypedDict):
    error: str
    message: NotRequired[str]
    requestId: NotRequired[str]
    details: NotRequired[list[Detail]]


class Error2(TypedDict):
    message: str
    type: str
    code: str
    param: str | None


class OpenAIError(TypedDict):
    error: Error2
    message: str
    requestId: str
    details: NotRequired[list[Detail]]


class Item(TypedDict):
    unit: str
    quantity: int
    credits: float


class ChatEstimate(TypedDict):
    model: str
    credits: float
    least: float
    most: float
    items: list[Item]


class UsageRecord(TypedDict):
    id: str
    type: str
    model: str | None
    status: Literal['reserved', 'charged', 'released']
    credits: float
    refunded: NotRequired[float]
    inputTokens: NotRequired[int]
    outputTokens: NotRequired[int]
    cachedInputTokens: NotRequired[int]
    cacheWriteTokens: NotRequired[int]
    reasoningTokens: NotRequired[int]
    jobId: NotRequired[str]
    keyId: str | None
    requestId: str | None
    metadata: dict[str, str]
    createdAt: str


class Error3(TypedDict):
    type: str
    message: str
    code: str


class AnthropicError(TypedDict):
    type: Literal['error']
    error: Error3
    request_id: str
    details: NotRequired[list[Detail]]


class Model(TypedDict):
    id: str
    object: Literal['model']
    created: int
    owned_by: str
    type: Literal['model']
    display_name: str
    created_at: str


class Image(TypedDict):
    url: str
    contentType: str
    width: int | None
    height: int | None
    expiresAt: str


class Credits(TypedDict):
    used: float
    cost: float
    remaining: float


class JobTicket(TypedDict):
    jobId: str
    status: Literal['queued', 'in_progress', 'completed', 'failed', 'canceled']
    statusUrl: str
    cancelUrl: str
    createdAt: str
    deadlineAt: str


class Item1(TypedDict):
    unit: str
    quantity: int
    creditsPerUnit: float
    credits: float
    note: NotRequired[str]


class StudioEstimate(TypedDict):
    type: str
    model: str | None
    credits: float
    items: list[Item1]


class Size(TypedDict):
    multipleOf: int
    edgeMax: int
    pixelsMin: int
    pixelsMax: int
    ratioMax: float


class ParameterRule(TypedDict):
    oneOf: NotRequired[list[str | float | bool]]
    min: NotRequired[float]
    max: NotRequired[float]
    itemsMax: NotRequired[int]
    charactersMax: NotRequired[int]
    size: NotRequired[Size]
    default: NotRequired[str | float | bool]


class Quantity(TypedDict):
    of: str | None
    default: float | None


class Pixels(TypedDict):
    of: str
    edgesTimes: float | str
    each: float | None
    rounding: Literal['up', 'none']


class Row(TypedDict):
    when: dict[str, str | float | bool]
    pixelsMax: NotRequired[float]
    credits: float
    chargedAs: NotRequired[str]


class PriceRule(TypedDict):
    unit: Literal['image', 'second', 'character', 'request']
    quantity: Quantity
    pixels: Pixels | None
    rows: list[Row]


class JobStep(TypedDict):
    name: Literal['reserve', 'pause', 'submit', 'wait', 'store', 'charge', 'release', 'webhook']
    state: Literal['waiting', 'running', 'done', 'failed']
    call: int | None
    provider: str | None
    providerRequestId: str | None
    attempts: int | None
    startedAt: str | None
    endedAt: str | None


class WebhookDelivery(TypedDict):
    number: int
    outcome: Literal['sending', 'delivered', 'gone', 'failed']
    status: int | None
    error: str | None
    response: str | None
    durationMs: int | None
    startedAt: str


class ListedWebhook(TypedDict):
    jobId: str
    url: str
    state: Literal['waiting', 'delivering', 'delivered', 'gone', 'failed']
    attempts: int
    nextAttemptAt: str | None
    createdAt: str
    updatedAt: str
    lastStatus: int | None
    lastError: str | None


class WebhookTest(TypedDict):
    outcome: Literal['sending', 'delivered', 'gone', 'failed']
    status: int | None
    error: str | None
    response: str | None
    durationMs: int | None
    headers: dict[str, str]
    body: str


class Datum(TypedDict):
    url: NotRequired[str]
    b64_json: NotRequired[str]


class OpenAIImages(TypedDict):
    created: int
    data: list[Datum]


class Error4(TypedDict):
    code: str
    message: str


class OpenAIVideo(TypedDict):
    id: str
    object: Literal['video']
    model: str | None
    status: Literal['queued', 'in_progress', 'completed', 'failed']
    progress: int
    created_at: int
    completed_at: int | None
    expires_at: None
    prompt: str | None
    seconds: str | None
    size: str | None
    error: Error4 | None
    remixed_from_video_id: None


class UploadUrl(TypedDict):
    fileId: str
    uploadUrl: str
    method: Literal['PUT']
    headers: dict[str, str]
    publicUrl: str
    url: str
    storagePath: str
    maxBytes: int
    expiresAt: str
    publicUrlExpiresAt: str


class File(TypedDict):
    kind: Literal['artifact', 'upload']
    fileId: str | None
    jobId: str | None
    storagePath: str
    contentType: str | None
    sizeBytes: int | None
    filename: str | None
    complete: bool
    url: str | None
    expiresAt: str | None
    createdAt: str


class ApiKeyMeta(TypedDict):
    keyId: str
    keyPrefix: str
    name: str
    createdAt: int
    expiresAt: int | None
    lastUsedAt: int | None
    scopes: list[Literal['chat', 'models:read', 'keys:read', 'keys:write', 'usage:read', 'storage:write', 'files:delete', 'studio:image', 'studio:video', 'studio:audio', 'studio:read']]
    allowedModels: list[str] | None
    limit: KeyLimit | None


class Row1(TypedDict):
    day: NotRequired[str]
    model: NotRequired[str | None]
    keyId: NotRequired[str]
    type: NotRequired[str]
    metadata: NotRequired[dict[str, str | None]]
    requests: int
    credits: float
    inputTokens: int
    outputTokens: int


class Total(TypedDict):
    requests: int
    credits: float
    inputTokens: int
    outputTokens: int


class UsageSummary(TypedDict):
    after: str
    before: str
    rows: list[Row1]
    total: Total


class Section1(TypedDict):
    section_name: str
    positive_local_styles: list[str]
    negative_local_styles: list[str]
    duration_ms: int
    lines: list[str]


class CompositionPlanOutput(TypedDict):
    positive_global_styles: list[str]
    negative_global_styles: list[str]
    sections: list[Section1]


class Error5(TypedDict):
    code: Literal['Unauthorized', 'FORBIDDEN', 'ORGANIZATION_SUSPENDED', 'STORAGE_QUOTA_EXCEEDED', 'INVALID_REQUEST', 'UNKNOWN_MODEL', 'UNSUPPORTED_PARAMETER', 'CONFLICTING_FIELDS', 'INVALID_INPUT_URL', 'KEY_QUOTA_REACHED', 'NOT_FOUND', 'JOB_NOT_FOUND', 'METHOD_NOT_ALLOWED', 'MEDIA_DELETED', 'REQUEST_TIMEOUT', 'JOB_ALREADY_DONE', 'JOB_NOT_REFUNDABLE', 'JOB_NOT_DONE', 'KEY_ALREADY_CREATED', 'ANSWER_NOT_KEPT', 'JOB_RUNNING', 'OUTCOME_UNDECIDED', 'KEY_ALREADY_REPLACED', 'REQUEST_IN_PROGRESS', 'UPLOAD_IN_PROGRESS', 'ALREADY_UPLOADED', 'PAYLOAD_TOO_LARGE', 'FILE_TOO_LARGE', 'UNSUPPORTED_MEDIA_TYPE', 'IDEMPOTENCY_KEY_REUSED', 'INSUFFICIENT_CREDITS', 'KEY_LIMIT_EXCEEDED', 'WINDOW_LIMIT_EXCEEDED', 'Rate limit exceeded. Please slow down.', 'WINDOW_EXHAUSTED', 'CONTEXT_LENGTH_EXCEEDED', 'PROVIDER_REJECTED_INPUT', 'CONTENT_POLICY', 'PROVIDER_ERROR', 'STORAGE_ERROR', 'DEADLINE_EXCEEDED', 'OUTCOME_UNKNOWN', 'CANCELED', 'JOB_LOST', 'SERVICE_UNAVAILABLE', 'Internal server error']
    message: str
    retryable: bool


class JobOutput(TypedDict):
    jobId: str
    keyId: str
    type: str
    model: str | None
    provider: str
    prompt: str | None
    status: Literal['queued', 'in_progress', 'completed', 'failed', 'canceled']
    done: bool
    phase: Literal['queued', 'waiting_for_provider', 'submitting', 'generating', 'storing', 'verifying_outcome', 'done']
    progress: Progress | None
    createdAt: str
    startedAt: str | None
    completedAt: str | None
    deadlineAt: str
    result: dict[str, Any] | None
    mediaDeletedAt: str | None
    error: Error5 | None
    billing: Billing
    metadata: dict[str, str]
    requestId: str
    statusUrl: str
    cancelUrl: str


class CacheControl(TypedDict):
    type: Literal['ephemeral']
    ttl: NotRequired[Literal['5m'] | None]


class Content(TypedDict):
    type: Literal['text']
    text: str
    cache_control: NotRequired[CacheControl]


class Messages(TypedDict):
    role: Literal['system']
    content: str | list[Content]
    name: NotRequired[str | None]


class Content1(TypedDict):
    type: Literal['text']
    text: str
    cache_control: NotRequired[CacheControl]


class ImageUrl(TypedDict):
    url: str
    detail: NotRequired[Literal['auto', 'low', 'high', 'original']]


class Content2(TypedDict):
    type: Literal['image_url']
    image_url: ImageUrl | str
    cache_control: NotRequired[CacheControl]


class InputAudio(TypedDict):
    data: str
    format: Literal['wav', 'mp3']


class Content3(TypedDict):
    type: Literal['input_audio']
    input_audio: InputAudio


class VideoUrl(TypedDict):
    url: str


class Content4(TypedDict):
    type: Literal['video_url']
    video_url: VideoUrl


class File1(TypedDict):
    file_id: NotRequired[str | None]
    file_data: NotRequired[str | None]
    filename: NotRequired[str]


class Content5(TypedDict):
    type: Literal['file']
    file: File1
    cache_control: NotRequired[CacheControl]


class Messages1(TypedDict):
    role: Literal['user']
    content: str | list[Content1 | Content2 | Content3 | Content4 | Content5]
    name: NotRequired[str | None]


class Content6(TypedDict):
    type: Literal['text']
    text: str
    cache_control: NotRequired[CacheControl]


class Content7(TypedDict):
    type: Literal['refusal']
    refusal: str


class Function(TypedDict):
    name: str
    arguments: str


class ToolCall(TypedDict):
    id: str
    type: Literal['function']
    function: Function
    extra_content: NotRequired[dict[str, Any] | None]
    cache_control: NotRequired[CacheControl]


class Messages2(TypedDict):
    role: Literal['assistant']
    content: NotRequired[str | list[Content6 | Content7] | None]
    name: NotRequired[str | None]
    refusal: NotRequired[str | None]
    tool_calls: NotRequired[list[ToolCall] | None]
    reasoning: NotRequired[str | None]
    reasoning_content: NotRequired[str | None]
    reasoning_details: NotRequired[list[dict[str, Any]] | None]
    extra_content: NotRequired[dict[str, Any] | None]


class ChatRequest(TypedDict):
    messages: list[Messages | Messages1 | Messages2]
    model: str
    models: NotRequired[list[str] | None]
    stream: NotRequired[bool | None]
    temperature: NotRequired[float | None]
    max_tokens: NotRequired[int | None]
    max_completion_tokens: NotRequired[int | None]
    top_p: NotRequired[float | None]
    stop: NotRequired[str | list[str] | None]
    seed: NotRequired[int | None]
    presence_penalty: NotRequired[float | None]
    frequency_penalty: NotRequired[float | None]
    reasoning_effort: NotRequired[Literal['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'] | None]
    user: NotRequired[str | None]
    metadata: NotRequired[dict[str, str] | None]


class TriedItem(TypedDict):
    model: str
    error: str


class ChatAnswer(TypedDict):
    id: str
    model: str
    content: str
    finishReason: str | None
    usage: TokenUsage
    creditsConsumed: float
    tried: NotRequired[list[TriedItem]]


class Content8(TypedDict):
    type: Literal['text']
    text: str
    cache_control: NotRequired[CacheControl]


class Messages3(TypedDict):
    role: Literal['system']
    content: str | list[Content8]
    name: NotRequired[str | None]


class Content9(TypedDict):
    type: Literal['text']
    text: str
    cache_control: NotRequired[CacheControl]


class Messages4(TypedDict):
    role: Literal['developer']
    content: str | list[Content9]
    name: NotRequired[str | None]


class Content10(TypedDict):
    type: Literal['text']
    text: str
    cache_control: NotRequired[CacheControl]


class Content11(TypedDict):
    type: Literal['image_url']
    image_url: ImageUrl | str
    cache_control: NotRequired[CacheControl]


class Content12(TypedDict):
    type: Literal['input_audio']
    input_audio: InputAudio


class Content13(TypedDict):
    type: Literal['video_url']
    video_url: VideoUrl


class Content14(TypedDict):
    type: Literal['file']
    file: File1
    cache_control: NotRequired[CacheControl]


class Messages5(TypedDict):
    role: Literal['user']
    content: str | list[Content10 | Content11 | Content12 | Content13 | Content14]
    name: NotRequired[str | None]


class Content15(TypedDict):
    type: Literal['text']
    text: str
    cache_control: NotRequired[CacheControl]


class Content16(TypedDict):
    type: Literal['refusal']
    refusal: str


class ToolCall1(TypedDict):
    id: str
    type: Literal['function']
    function: Function
    extra_content: NotRequired[dict[str, Any] | None]
    cache_control: NotRequired[CacheControl]


class Messages6(TypedDict):
    role: Literal['assistant']
    content: NotRequired[str | list[Content15 | Content16] | None]
    name: NotRequired[str | None]
    refusal: NotRequired[str | None]
    tool_calls: NotRequired[list[ToolCall1] | None]
    reasoning: NotRequired[str | None]
    reasoning_content: NotRequired[str | None]
    reasoning_details: NotRequired[list[dict[str, Any]] | None]
    extra_content: NotRequired[dict[str, Any] | None]


class Content17(TypedDict):
    type: Literal['text']
    text: str
    cache_control: NotRequired[CacheControl]


class Messages7(TypedDict):
    role: Literal['tool']
    content: str | list[Content17]
    tool_call_id: str
    cache_control: NotRequired[CacheControl]


class Function2(TypedDict):
    name: str
    description: NotRequired[str]
    parameters: NotRequired[dict[str, Any]]
    strict: NotRequired[bool | None]


class Tool(TypedDict):
    type: Literal['function']
    function: Function2
    cache_control: NotRequired[CacheControl]


class Function3(TypedDict):
    name: str


class ToolChoice(TypedDict):
    type: Literal['function']
    function: Function3


class ResponseFormat(TypedDict):
    type: Literal['text']


class ResponseFormat1(TypedDict):
    type: Literal['json_object']


class ResponseFormat2(TypedDict):
    type: Literal['json_schema']
    json_schema: dict[str, Any]


class Reasoning(TypedDict):
    effort: NotRequired[Literal['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'] | None]
    max_tokens: NotRequired[int | None]
    enabled: NotRequired[bool | None]
    exclude: NotRequired[Literal[False] | None]


class Thinking(TypedDict):
    type: Literal['enabled']
    budget_tokens: int


class Thinking1(TypedDict):
    type: Literal['adaptive']


class Thinking2(TypedDict):
    type: Literal['disabled']


class StreamOptions(TypedDict):
    include_usage: NotRequired[bool | None]
    include_obfuscation: NotRequired[bool | None]


class Provider(TypedDict):
    data_collection: NotRequired[Literal['allow'] | None]
    zdr: NotRequired[Literal[False] | None]
    only: NotRequired[None]
    ignore: NotRequired[None]
    quantizations: NotRequired[None]
    max_price: NotRequired[None]


class ChatCompletionsRequest(TypedDict):
    messages: list[Messages3 | Messages4 | Messages5 | Messages6 | Messages7]
    model: str
    models: NotRequired[list[str] | None]
    stream: NotRequired[bool | None]
    temperature: NotRequired[float | None]
    max_tokens: NotRequired[int | None]
    max_completion_tokens: NotRequired[int | None]
    top_p: NotRequired[float | None]
    stop: NotRequired[str | list[str] | None]
    seed: NotRequired[int | None]
    presence_penalty: NotRequired[float | None]
    frequency_penalty: NotRequired[float | None]
    reasoning_effort: NotRequired[Literal['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'] | None]
    user: NotRequired[str | None]
    metadata: NotRequired[dict[str, str] | None]
    n: NotRequired[int | None]
    tools: NotRequired[list[Tool] | None]
    tool_choice: NotRequired[Literal['none', 'auto', 'required'] | ToolChoice | None]
    parallel_tool_calls: NotRequired[bool | None]
    response_format: NotRequired[ResponseFormat | ResponseFormat1 | ResponseFormat2 | None]
    logprobs: NotRequired[bool | None]
    top_logprobs: NotRequired[int | None]
    logit_bias: NotRequired[dict[str, float] | None]
    prediction: NotRequired[dict[str, Any] | None]
    prompt_cache_key: NotRequired[str | None]
    prompt_cache_retention: NotRequired[Literal['in_memory', '24h'] | None]
    safety_identifier: NotRequired[str | None]
    store: NotRequired[bool | None]
    verbosity: NotRequired[Literal['low', 'medium', 'high'] | None]
    top_k: NotRequired[int | None]
    reasoning: NotRequired[Reasoning | None]
    thinking: NotRequired[Thinking | Thinking1 | Thinking2 | None]
    cache_control: NotRequired[CacheControl | None]
    modalities: NotRequired[list[Literal['text']] | None]
    service_tier: NotRequired[Literal['auto', 'default'] | None]
    stream_options: NotRequired[StreamOptions | None]
    provider: NotRequired[Provider | None]
    audio: NotRequired[None]
    web_search_options: NotRequired[None]
    functions: NotRequired[None]
    function_call: NotRequired[None]


class Message(TypedDict):
    role: Literal['assistant']
    content: NotRequired[str | None]


class Choice(TypedDict):
    index: int
    message: Message
    finish_reason: str | None


class Usage(TypedDict):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    inputTokens: int
    outputTokens: int
    totalTokens: int
    cachedInputTokens: NotRequired[int]
    cacheWriteTokens: NotRequired[int]
    reasoningTokens: NotRequired[int]


class ChatCompletionsAnswer(TypedDict):
    id: str
    object: Literal['chat.completion']
    created: int
    model: str
    choices: list[Choice]
    usage: Usage
    content: str
    creditsConsumed: float
    tried: NotRequired[list[TriedItem]]


class ChatEstimateAnswer(TypedDict):
    success: Literal[True]
    data: ChatEstimate


class ChatCompletionsEstimateAnswer(TypedDict):
    success: Literal[True]
    data: ChatEstimate


class GetChatAnswer(TypedDict):
    success: Literal[True]
    data: UsageRecord


class Content18(TypedDict):
    type: Literal['text']
    text: str
    cache_control: NotRequired[CacheControl | None]


class Source(TypedDict):
    type: Literal['base64']
    media_type: str
    data: str


class Source1(TypedDict):
    type: Literal['url']
    url: str


class Source2(TypedDict):
    type: Literal['file']
    file_id: str


class Content19(TypedDict):
    type: Literal['image']
    source: Source | Source1 | Source2
    cache_control: NotRequired[CacheControl | None]


class Source3(TypedDict):
    type: Literal['base64']
    media_type: str
    data: str


class Source4(TypedDict):
    type: Literal['url']
    url: str


class Source5(TypedDict):
    type: Literal['file']
    file_id: str


class Source6(TypedDict):
    type: Literal['text']
    media_type: str
    data: str


class Content20(TypedDict):
    type: Literal['document']
    source: Source3 | Source4 | Source5 | Source6
    title: NotRequired[str | None]
    cache_control: NotRequired[CacheControl | None]


class Content22(TypedDict):
    type: Literal['text']
    text: str
    cache_control: NotRequired[CacheControl | None]


class Source7(TypedDict):
    type: Literal['base64']
    media_type: str
    data: str


class Source8(TypedDict):
    type: Literal['url']
    url: str


class Source9(TypedDict):
    type: Literal['file']
    file_id: str


class Content23(TypedDict):
    type: Literal['image']
    source: Source7 | Source8 | Source9
    cache_control: NotRequired[CacheControl | None]


class Content21(TypedDict):
    type: Literal['tool_result']
    tool_use_id: str
    content: NotRequired[str | list[Content22 | Content23]]
    is_error: NotRequired[bool | None]
    cache_control: NotRequired[CacheControl | None]


class Messages8(TypedDict):
    role: Literal['user']
    content: str | list[Content18 | Content19 | Content20 | Content21]


class Content24(TypedDict):
    type: Literal['text']
    text: str
    cache_control: NotRequired[CacheControl | None]


class Content25(TypedDict):
    type: Literal['tool_use']
    id: str
    name: str
    input: dict[str, Any]
    cache_control: NotRequired[CacheControl | None]


class Content26(TypedDict):
    type: Literal['thinking']
    thinking: str
    signature: str


class Content27(TypedDict):
    type: Literal['redacted_thinking']
    data: str


class Messages9(TypedDict):
    role: Literal['assistant']
    content: str | list[Content24 | Content25 | Content26 | Content27]


class System(TypedDict):
    type: Literal['text']
    text: str
    cache_control: NotRequired[CacheControl | None]


class Tool1(TypedDict):
    type: NotRequired[Literal['custom']]
    name: str
    description: NotRequired[str]
    input_schema: dict[str, Any]
    strict: NotRequired[bool | None]
    cache_control: NotRequired[CacheControl | None]


class ToolChoice1(TypedDict):
    type: Literal['auto']
    disable_parallel_tool_use: NotRequired[bool]


class ToolChoice2(TypedDict):
    type: Literal['any']
    disable_parallel_tool_use: NotRequired[bool]


class ToolChoice3(TypedDict):
    type: Literal['tool']
    name: str
    disable_parallel_tool_use: NotRequired[bool]


class ToolChoice4(TypedDict):
    type: Literal['none']


class Metadata(TypedDict):
    user_id: NotRequired[str | None]


class Format(TypedDict):
    type: Literal['json_schema']
    schema: dict[str, Any]


class OutputConfig(TypedDict):
    effort: NotRequired[Literal['low', 'medium', 'high', 'xhigh', 'max'] | None]
    format: NotRequired[Format | None]


class Thinking3(TypedDict):
    type: Literal['enabled']
    budget_tokens: int


class Thinking4(TypedDict):
    type: Literal['adaptive']


class Thinking5(TypedDict):
    type: Literal['disabled']


class CreateMessageRequest(TypedDict):
    model: str
    models: NotRequired[list[str] | None]
    max_tokens: int
    messages: list[Messages8 | Messages9]
    system: NotRequired[str | list[System]]
    stream: NotRequired[bool]
    temperature: NotRequired[float]
    top_p: NotRequired[float]
    stop_sequences: NotRequired[list[str]]
    tools: NotRequired[list[Tool1]]
    tool_choice: NotRequired[ToolChoice1 | ToolChoice2 | ToolChoice3 | ToolChoice4]
    metadata: NotRequired[Metadata]
    output_config: NotRequired[OutputConfig]
    service_tier: NotRequired[Literal['auto', 'standard_only']]
    speed: NotRequired[Literal['standard'] | None]
    top_k: NotRequired[int]
    thinking: NotRequired[Thinking3 | Thinking4 | Thinking5 | None]
    cache_control: NotRequired[CacheControl | None]
    container: NotRequired[None]
    mcp_servers: NotRequired[None]


class Content28(TypedDict):
    type: Literal['text']
    text: str


class Content29(TypedDict):
    type: Literal['tool_use']
    id: str
    name: str
    input: dict[str, Any]


class Content30(TypedDict):
    type: Literal['thinking']
    thinking: str
    signature: str


class Content31(TypedDict):
    type: Literal['redacted_thinking']
    data: str


class Usage1(TypedDict):
    input_tokens: int
    cache_read_input_tokens: int
    cache_creation_input_tokens: int
    output_tokens: int


class CreateMessageAnswer(TypedDict):
    id: str
    type: Literal['message']
    role: Literal['assistant']
    model: str
    content: list[Content28 | Content29 | Content30 | Content31]
    stop_reason: Literal['end_turn', 'max_tokens', 'stop_sequence', 'tool_use', 'refusal']
    stop_sequence: str | None
    usage: Usage1
    creditsConsumed: float


class Content32(TypedDict):
    type: Literal['text']
    text: str
    cache_control: NotRequired[CacheControl | None]


class Source10(TypedDict):
    type: Literal['base64']
    media_type: str
    data: str


class Source11(TypedDict):
    type: Literal['url']
    url: str


class Source12(TypedDict):
    type: Literal['file']
    file_id: str


class Content33(TypedDict):
    type: Literal['image']
    source: Source10 | Source11 | Source12
    cache_control: NotRequired[CacheControl | None]


class Source13(TypedDict):
    type: Literal['base64']
    media_type: str
    data: str


class Source14(TypedDict):
    type: Literal['url']
    url: str


class Source15(TypedDict):
    type: Literal['file']
    file_id: str


class Source16(TypedDict):
    type: Literal['text']
    media_type: str
    data: str


class Content34(TypedDict):
    type: Literal['document']
    source: Source13 | Source14 | Source15 | Source16
    title: NotRequired[str | None]
    cache_control: NotRequired[CacheControl | None]


class Content36(TypedDict):
    type: Literal['text']
    text: str
    cache_control: NotRequired[CacheControl | None]


class Source17(TypedDict):
    type: Literal['base64']
    media_type: str
    data: str


class Source18(TypedDict):
    type: Literal['url']
    url: str


class Source19(TypedDict):
    type: Literal['file']
    file_id: str


class Content37(TypedDict):
    type: Literal['image']
    source: Source17 | Source18 | Source19
    cache_control: NotRequired[CacheControl | None]


class Content35(TypedDict):
    type: Literal['tool_result']
    tool_use_id: str
    content: NotRequired[str | list[Content36 | Content37]]
    is_error: NotRequired[bool | None]
    cache_control: NotRequired[CacheControl | None]


class Messages10(TypedDict):
    role: Literal['user']
    content: str | list[Content32 | Content33 | Content34 | Content35]


class Content38(TypedDict):
    type: Literal['text']
    text: str
    cache_control: NotRequired[CacheControl | None]


class Content39(TypedDict):
    type: Literal['tool_use']
    id: str
    name: str
    input: dict[str, Any]
    cache_control: NotRequired[CacheControl | None]


class Content40(TypedDict):
    type: Literal['thinking']
    thinking: str
    signature: str


class Content41(TypedDict):
    type: Literal['redacted_thinking']
    data: str


class Messages11(TypedDict):
    role: Literal['assistant']
    content: str | list[Content38 | Content39 | Content40 | Content41]


class System1(TypedDict):
    type: Literal['text']
    text: str
    cache_control: NotRequired[CacheControl | None]


class Tool2(TypedDict):
    type: NotRequired[Literal['custom']]
    name: str
    description: NotRequired[str]
    input_schema: dict[str, Any]
    strict: NotRequired[bool | None]
    cache_control: NotRequired[CacheControl | None]


class ToolChoice5(TypedDict):
    type: Literal['auto']
    disable_parallel_tool_use: NotRequired[bool]


class ToolChoice6(TypedDict):
    type: Literal['any']
    disable_parallel_tool_use: NotRequired[bool]


class ToolChoice7(TypedDict):
    type: Literal['tool']
    name: str
    disable_parallel_tool_use: NotRequired[bool]


class ToolChoice8(TypedDict):
    type: Literal['none']


class OutputConfig1(TypedDict):
    effort: NotRequired[Literal['low', 'medium', 'high', 'xhigh', 'max'] | None]
    format: NotRequired[Format | None]


class Thinking6(TypedDict):
    type: Literal['enabled']
    budget_tokens: int


class Thinking7(TypedDict):
    type: Literal['adaptive']


class Thinking8(TypedDict):
    type: Literal['disabled']


class CountMessageTokensRequest(TypedDict):
    model: str
    models: NotRequired[list[str] | None]
    messages: list[Messages10 | Messages11]
    system: NotRequired[str | list[System1]]
    stream: NotRequired[bool]
    temperature: NotRequired[float]
    top_p: NotRequired[float]
    stop_sequences: NotRequired[list[str]]
    tools: NotRequired[list[Tool2]]
    tool_choice: NotRequired[ToolChoice5 | ToolChoice6 | ToolChoice7 | ToolChoice8]
    metadata: NotRequired[Metadata]
    output_config: NotRequired[OutputConfig1]
    service_tier: NotRequired[Literal['auto', 'standard_only']]
    speed: NotRequired[Literal['standard'] | None]
    top_k: NotRequired[int]
    thinking: NotRequired[Thinking6 | Thinking7 | Thinking8 | None]
    cache_control: NotRequired[CacheControl | None]
    container: NotRequired[None]
    mcp_servers: NotRequired[None]


class CountMessageTokensAnswer(TypedDict):
    input_tokens: int


class Cost(TypedDict):
    input: float
    output: float
    audioInput: NotRequired[float]
    cachedInput: NotRequired[float]
    cacheWrite: NotRequired[float]


class Limit(TypedDict):
    context: int
    output: int


class Model5(TypedDict):
    id: str
    name: str
    cost: Cost
    limit: Limit
    reasoning: NotRequired[Literal[True]]
    supportsImages: NotRequired[Literal[True]]
    supportsVideo: NotRequired[Literal[True]]
    supportsAudio: NotRequired[Literal[True]]
    description: NotRequired[str]


class ListModelsAnswer(TypedDict):
    object: Literal['list']
    data: list[Model]
    has_more: bool
    first_id: str | None
    last_id: str | None
    models: list[Model5]


class ImageSize(TypedDict):
    width: int
    height: int


ImageGenerateRequest = TypedDict(
    'ImageGenerateRequest',
    {
        'prompt': str,
        'model': NotRequired[Literal['nano-banana', 'nano-banana-pro', 'seedream', 'alpha-image', 'alpha-image-mini', 'alpha-image-2', 'alpha-image-2.5-flare', 'alpha-image-2.5-sunburst', 'alpha-imagen', 'alpha-imagen-ultra', 'alpha-imagine']],
        'numImages': NotRequired[int],
        'aspectRatio': NotRequired[str],
        'outputFormat': NotRequired[Literal['jpeg', 'png', 'webp']],
        'resolution': NotRequired[Literal['1K', '2K', '4K']],
        'width': NotRequired[int],
        'height': NotRequired[int],
        'seed': NotRequired[int],
        'negativePrompt': NotRequired[str],
        'quality': NotRequired[Literal['auto', 'low', 'medium', 'high']],
        'background': NotRequired[Literal['auto', 'transparent', 'opaque']],
        'imageSize': NotRequired[Literal['square_hd', 'square', 'portrait_4_3', 'portrait_16_9', 'landscape_4_3', 'landscape_16_9'] | ImageSize],
        'imageUrls': NotRequired[str | list[str]],
        'async': NotRequired[bool],
        'webhookUrl': NotRequired[str],
        'webhookEvents': NotRequired[list[Literal['started', 'completed', 'failed', 'canceled']]],
        'metadata': NotRequired[dict[str, str] | None],
    },
)


class Metadata2(TypedDict):
    outputImages: int
    prompt: str
    aspectRatio: str | None


class ImageGenerateResult(TypedDict):
    model: str
    images: list[Image]
    metadata: Metadata2


class ImageGenerateEstimateAnswer(TypedDict):
    success: Literal[True]
    data: StudioEstimate


ImageEditRequest = TypedDict(
    'ImageEditRequest',
    {
        'prompt': str,
        'imageUrls': list[str],
        'model': NotRequired[Literal['nano-banana', 'seedream', 'alpha-image-2', 'alpha-image-2.5-flare', 'alpha-image-2.5-sunburst']],
        'numImages': NotRequired[int],
        'outputFormat': NotRequired[Literal['jpeg', 'png', 'webp']],
        'seed': NotRequired[int],
        'quality': NotRequired[Literal['low', 'medium', 'high']],
        'background': NotRequired[Literal['auto', 'transparent', 'opaque']],
        'maskUrl': NotRequired[str],
        'async': NotRequired[bool],
        'webhookUrl': NotRequired[str],
        'webhookEvents': NotRequired[list[Literal['started', 'completed', 'failed', 'canceled']]],
        'metadata': NotRequired[dict[str, str] | None],
    },
)


class ImageEditResult(TypedDict):
    model: str
    images: list[Image]
    metadata: Metadata2


class ImageEditEstimateAnswer(TypedDict):
    success: Literal[True]
    data: StudioEstimate


ImageUpscaleRequest = TypedDict(
    'ImageUpscaleRequest',
    {
        'imageUrl': str,
        'scaleFactor': NotRequired[Literal[2, 4, 6]],
        'service': NotRequired[Literal['service_a', 'service_b']],
        'model': NotRequired[Literal['Standard V2', 'High Fidelity V2', 'CGI', 'Low Resolution V2']],
        'faceEnhancement': NotRequired[bool],
        'persistToStorage': NotRequired[bool],
        'async': NotRequired[bool],
        'webhookUrl': NotRequired[str],
        'webhookEvents': NotRequired[list[Literal['started', 'completed', 'failed', 'canceled']]],
        'metadata': NotRequired[dict[str, str] | None],
    },
)


class ImageUpscaleResult(TypedDict):
    url: str | None
    imageUrl: str | None
    contentType: str
    width: int | None
    height: int | None
    model: str | None
    persisted: bool
    storagePath: str | None
    expiresAt: str
    service: str
    scaleFactor: int


class ImageUpscaleEstimateAnswer(TypedDict):
    success: Literal[True]
    data: StudioEstimate


ImageRemoveBackgroundRequest = TypedDict(
    'ImageRemoveBackgroundRequest',
    {
        'imageUrl': str,
        'model': NotRequired[Literal['General Use (Light)', 'General Use (Heavy)', 'Portrait']],
        'operatingResolution': NotRequired[Literal['1024x1024', '2048x2048', '2304x2304']],
        'refineForeground': NotRequired[bool],
        'persistToStorage': NotRequired[bool],
        'async': NotRequired[bool],
        'webhookUrl': NotRequired[str],
        'webhookEvents': NotRequired[list[Literal['started', 'completed', 'failed', 'canceled']]],
        'metadata': NotRequired[dict[str, str] | None],
    },
)


class ImageRemoveBackgroundResult(TypedDict):
    url: str | None
    imageUrl: str | None
    contentType: str
    width: int | None
    height: int | None
    model: str | None
    persisted: bool
    storagePath: str | None
    expiresAt: str
    operatingResolution: str


class ImageRemoveBackgroundEstimateAnswer(TypedDict):
    success: Literal[True]
    data: StudioEstimate


ImageBatchRequest = TypedDict(
    'ImageBatchRequest',
    {
        'operation': Literal['remove-background', 'upscale'],
        'imageUrls': NotRequired[list[str]],
        'prompts': NotRequired[list[str]],
        'scaleFactor': NotRequired[Literal[2, 4, 6]],
        'service': NotRequired[str],
        'async': NotRequired[bool],
        'webhookUrl': NotRequired[str],
        'webhookEvents': NotRequired[list[Literal['started', 'completed', 'failed', 'canceled']]],
        'metadata': NotRequired[dict[str, str] | None],
    },
)


class Results(TypedDict):
    success: Literal[True]
    index: int
    data: str
    expiresAt: str


class Error6(TypedDict):
    code: str
    message: str


class Results1(TypedDict):
    success: Literal[False]
    index: int
    error: Error6


class ImageBatchResult(TypedDict):
    total: int
    successful: int
    failed: int
    results: list[Results | Results1]


class ImageBatchEstimateAnswer(TypedDict):
    success: Literal[True]
    data: StudioEstimate


VideoGenerateRequest = TypedDict(
    'VideoGenerateRequest',
    {
        'prompt': str,
        'model': NotRequired[Literal['veo', 'kling-3.0-pro', 'seedance-2.5', 'seedance-2.0']],
        'imageUrl': NotRequired[str],
        'referenceUrls': NotRequired[list[str]],
        'durationSeconds': NotRequired[int],
        'aspectRatio': NotRequired[str],
        'resolution': NotRequired[str],
        'generateAudio': NotRequired[bool],
        'seed': NotRequired[int],
        'negativePrompt': NotRequired[str],
        'async': NotRequired[bool],
        'webhookUrl': NotRequired[str],
        'webhookEvents': NotRequired[list[Literal['started', 'completed', 'failed', 'canceled']]],
        'metadata': NotRequired[dict[str, str] | None],
    },
)


class VideoGenerateResult(TypedDict):
    url: str
    expiresAt: str
    storagePath: str
    format: str
    contentType: str
    durationSeconds: float | None
    width: int | None
    height: int | None
    hasAudio: bool | None
    model: str
    metadata: dict[str, Any]


class VideoGenerateEstimateAnswer(TypedDict):
    success: Literal[True]
    data: StudioEstimate


VideoUpscaleRequest = TypedDict(
    'VideoUpscaleRequest',
    {
        'videoUrl': str,
        'async': NotRequired[bool],
        'webhookUrl': NotRequired[str],
        'webhookEvents': NotRequired[list[Literal['started', 'completed', 'failed', 'canceled']]],
        'metadata': NotRequired[dict[str, str] | None],
    },
)


class VideoUpscaleResult(TypedDict):
    url: str
    expiresAt: str
    storagePath: str
    format: str
    contentType: str
    durationSeconds: float | None
    width: int | None
    height: int | None
    hasAudio: bool | None
    model: str
    metadata: dict[str, Any]


class VideoUpscaleEstimateAnswer(TypedDict):
    success: Literal[True]
    data: StudioEstimate


VideoRemoveBackgroundRequest = TypedDict(
    'VideoRemoveBackgroundRequest',
    {
        'videoUrl': str,
        'async': NotRequired[bool],
        'webhookUrl': NotRequired[str],
        'webhookEvents': NotRequired[list[Literal['started', 'completed', 'failed', 'canceled']]],
        'metadata': NotRequired[dict[str, str] | None],
    },
)


class VideoRemoveBackgroundResult(TypedDict):
    url: str
    expiresAt: str
    storagePath: str
    format: str
    contentType: str
    durationSeconds: float | None
    width: int | None
    height: int | None
    hasAudio: bool | None
    model: str
    metadata: dict[str, Any]


class VideoRemoveBackgroundEstimateAnswer(TypedDict):
    success: Literal[True]
    data: StudioEstimate


VoiceoverGenerateRequest = TypedDict(
    'VoiceoverGenerateRequest',
    {
        'text': str,
        'title': str,
        'voice': NotRequired[Literal['adam', 'alice', 'antoni', 'aria', 'bill', 'brian', 'callum', 'charlie', 'charlotte', 'chris', 'daniel', 'eric', 'george', 'jessica', 'laura', 'liam', 'lily', 'matilda', 'rachel', 'river', 'roger', 'sarah', 'will']],
        'stability': NotRequired[float],
        'similarityBoost': NotRequired[float],
        'async': NotRequired[bool],
        'webhookUrl': NotRequired[str],
        'webhookEvents': NotRequired[list[Literal['started', 'completed', 'failed', 'canceled']]],
        'metadata': NotRequired[dict[str, str] | None],
    },
)


class Metadata4(TypedDict):
    stability: float
    similarityBoost: float


class VoiceoverGenerateResult(TypedDict):
    url: str
    expiresAt: str
    storagePath: str
    format: str
    title: str
    voice: str
    model: str
    textLength: int
    metadata: Metadata4


class VoiceoverGenerateEstimateAnswer(TypedDict):
    success: Literal[True]
    data: StudioEstimate


class Input(TypedDict):
    text: str
    voiceId: Literal['adam', 'alice', 'antoni', 'aria', 'bill', 'brian', 'callum', 'charlie', 'charlotte', 'chris', 'daniel', 'eric', 'george', 'jessica', 'laura', 'liam', 'lily', 'matilda', 'rachel', 'river', 'roger', 'sarah', 'will']


DialogueGenerateRequest = TypedDict(
    'DialogueGenerateRequest',
    {
        'inputs': list[Input],
        'title': str,
        'stability': NotRequired[float],
        'similarityBoost': NotRequired[float],
        'async': NotRequired[bool],
        'webhookUrl': NotRequired[str],
        'webhookEvents': NotRequired[list[Literal['started', 'completed', 'failed', 'canceled']]],
        'metadata': NotRequired[dict[str, str] | None],
    },
)


class DialogueLine(TypedDict):
    line: int
    voice: str
    text: str


class Metadata5(TypedDict):
    stability: float
    similarityBoost: float
    chunks: int


class DialogueGenerateResult(TypedDict):
    url: str
    expiresAt: str
    storagePath: str
    format: str
    title: str
    model: str
    dialogueLines: list[DialogueLine]
    voicesUsed: list[str]
    totalLines: int
    totalTextLength: int
    metadata: Metadata5


class DialogueGenerateEstimateAnswer(TypedDict):
    success: Literal[True]
    data: StudioEstimate


MusicPlanRequest = TypedDict(
    'MusicPlanRequest',
    {
        'prompt': str,
        'music_length_ms': NotRequired[int],
        'source_composition_plan': NotRequired[CompositionPlan],
        'model_id': NotRequired[Literal['music_v1']],
        'async': NotRequired[bool],
        'webhookUrl': NotRequired[str],
        'webhookEvents': NotRequired[list[Literal['started', 'completed', 'failed', 'canceled']]],
        'metadata': NotRequired[dict[str, str] | None],
    },
)


class MusicPlanEstimateAnswer(TypedDict):
    success: Literal[True]
    data: StudioEstimate


MusicGenerateRequest = TypedDict(
    'MusicGenerateRequest',
    {
        'prompt': NotRequired[str],
        'composition_plan': NotRequired[CompositionPlan],
        'plan': NotRequired[CompositionPlan],
        'durationSeconds': NotRequired[float],
        'coverPrompt': NotRequired[str],
        'force_instrumental': NotRequired[bool],
        'model_id': NotRequired[Literal['music_v1']],
        'mode': NotRequired[Literal['full', 'audio-only']],
        'async': NotRequired[bool],
        'webhookUrl': NotRequired[str],
        'webhookEvents': NotRequired[list[Literal['started', 'completed', 'failed', 'canceled']]],
        'metadata': NotRequired[dict[str, str] | None],
    },
)


class CoverError(TypedDict):
    code: str
    message: str


class MusicGenerateResult(TypedDict):
    url: str
    expiresAt: str
    storagePath: str
    format: str
    duration: int
    title: str | None
    model: str
    coverUrl: NotRequired[str | None]
    coverError: NotRequired[CoverError]
    lyrics: NotRequired[str | None]


class MusicGenerateEstimateAnswer(TypedDict):
    success: Literal[True]
    data: StudioEstimate


SfxGenerateRequest = TypedDict(
    'SfxGenerateRequest',
    {
        'prompt': str,
        'durationSeconds': NotRequired[float],
        'promptInfluence': NotRequired[float],
        'loop': NotRequired[bool],
        'async': NotRequired[bool],
        'webhookUrl': NotRequired[str],
        'webhookEvents': NotRequired[list[Literal['started', 'completed', 'failed', 'canceled']]],
        'metadata': NotRequired[dict[str, str] | None],
    },
)


class SfxGenerateResult(TypedDict):
    url: str
    expiresAt: str
    storagePath: str
    format: str
    prompt: str
    durationSeconds: float
    model: str


class SfxGenerateEstimateAnswer(TypedDict):
    success: Literal[True]
    data: StudioEstimate


AudioTranscribeRequest = TypedDict(
    'AudioTranscribeRequest',
    {
        'fileId': NotRequired[str],
        'audioUrl': NotRequired[str],
        'language': NotRequired[str],
        'fileName': NotRequired[str],
        'async': NotRequired[bool],
        'webhookUrl': NotRequired[str],
        'webhookEvents': NotRequired[list[Literal['started', 'completed', 'failed', 'canceled']]],
        'metadata': NotRequired[dict[str, str] | None],
    },
)


class Word(TypedDict):
    text: str
    start: float
    end: float
    type: Literal['word', 'spacing', 'audio_event']
    speakerId: NotRequired[str]


class AudioTranscribeResult(TypedDict):
    text: str
    language: str
    durationSeconds: float
    words: list[Word]
    model: str
    source: Literal['file', 'url']
    transcriptUrl: str
    expiresAt: str


class AudioTranscribeEstimateAnswer(TypedDict):
    success: Literal[True]
    data: StudioEstimate


class Input1(TypedDict):
    width: int
    height: int
    durationSeconds: float


class Example(TypedDict):
    request: dict[str, Any]
    input: Input1 | None
    credits: float
    notes: list[str]


class Model6(TypedDict):
    id: str
    displayName: str
    servedBy: str
    typicalSeconds: float | None
    selectedBy: dict[str, str]
    parameters: dict[str, ParameterRule]
    price: list[PriceRule]
    example: Example


class Datum1(TypedDict):
    type: str
    endpoint: str
    medium: Literal['image', 'video', 'audio']
    scope: str
    defaultModel: str | None
    models: list[Model6]
    request: dict[str, Any]


class ListStudioModelsAnswer(TypedDict):
    success: Literal[True]
    data: list[Datum1]


class Datum2(TypedDict):
    name: str
    gender: str
    default: bool


class ListStudioVoicesAnswer(TypedDict):
    success: Literal[True]
    data: list[Datum2]


class Example1(TypedDict):
    request: dict[str, Any]
    input: Input1 | None
    credits: float
    notes: list[str]


class StudioItem(TypedDict):
    endpoint: str
    model: str
    displayName: str
    price: list[PriceRule]
    example: Example1


class LongInput(TypedDict):
    inputTokensAbove: int
    input: float
    output: float


class ChatItem(TypedDict):
    model: str
    name: str
    input: float
    output: float
    longInput: NotRequired[LongInput]


class GetPricingAnswer(TypedDict):
    usdPerCredit: float
    studio: list[StudioItem]
    chat: list[ChatItem]


class Data(TypedDict):
    count: int


class CountJobsAnswer(TypedDict):
    success: Literal[True]
    data: Data


class GetJobAnswer(TypedDict):
    success: Literal[True]
    data: JobOutput
    credits: Credits


class ListJobsAnswer(TypedDict):
    success: Literal[True]
    data: list[JobOutput]
    hasMore: bool
    nextCursor: str | None


class CancelJobAnswer(TypedDict):
    success: Literal[True]
    data: JobOutput
    credits: Credits


class ListWebhookDeliveriesAnswer(TypedDict):
    success: Literal[True]
    data: list[ListedWebhook]
    hasMore: bool
    nextCursor: str | None


class TestWebhookRequest(TypedDict):
    url: str


class TestWebhookAnswer(TypedDict):
    success: Literal[True]
    data: WebhookTest


class Content42(TypedDict):
    type: Literal['input_text']
    text: str


class Content43(TypedDict):
    type: Literal['input_image']
    file_id: NotRequired[str | None]
    image_url: NotRequired[str | None]
    detail: NotRequired[Literal['auto', 'low', 'high', 'original'] | None]


class Content44(TypedDict):
    type: Literal['input_file']
    file_id: NotRequired[str | None]
    file_url: NotRequired[str | None]
    file_data: NotRequired[str | None]
    filename: NotRequired[str | None]


class Input3(TypedDict):
    type: NotRequired[Literal['message']]
    role: Literal['user']
    content: str | list[Content42 | Content43 | Content44]


class Content45(TypedDict):
    type: Literal['input_text']
    text: str


class Input4(TypedDict):
    type: NotRequired[Literal['message']]
    role: Literal['system', 'developer']
    content: str | list[Content45]


class Content46(TypedDict):
    type: Literal['output_text']
    text: str


class Content47(TypedDict):
    type: Literal['refusal']
    refusal: str


class Content48(TypedDict):
    type: Literal['input_text']
    text: str


class Input5(TypedDict):
    type: NotRequired[Literal['message']]
    role: Literal['assistant']
    content: str | list[Content46 | Content47 | Content48]


class Input6(TypedDict):
    type: Literal['function_call']
    call_id: str
    name: str
    arguments: str


class Output(TypedDict):
    type: Literal['input_text']
    text: str


class Output1(TypedDict):
    type: Literal['input_image']
    file_id: NotRequired[str | None]
    image_url: NotRequired[str | None]
    detail: NotRequired[Literal['auto', 'low', 'high', 'original'] | None]


class Input7(TypedDict):
    type: Literal['function_call_output']
    call_id: str
    output: str | list[Output | Output1]


class SummaryItem(TypedDict):
    text: NotRequired[str]


class Input8(TypedDict):
    type: Literal['reasoning']
    summary: NotRequired[list[SummaryItem] | None]
    encrypted_content: NotRequired[str | None]


class Input9(TypedDict):
    type: Literal['item_reference']
    id: str


class Format2(TypedDict):
    type: Literal['text']


class Format3(TypedDict):
    type: Literal['json_object']


class Format4(TypedDict):
    type: Literal['json_schema']
    name: str
    schema: dict[str, Any]
    description: NotRequired[str | None]
    strict: NotRequired[bool | None]


class Text(TypedDict):
    format: NotRequired[Format2 | Format3 | Format4 | None]
    verbosity: NotRequired[Literal['low', 'medium', 'high'] | None]


class Reasoning1(TypedDict):
    effort: NotRequired[Literal['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'] | None]
    summary: NotRequired[Literal['auto', 'concise', 'detailed'] | None]


class Tool3(TypedDict):
    type: Literal['function']
    name: str
    description: NotRequired[str | None]
    parameters: NotRequired[dict[str, Any] | None]
    strict: NotRequired[bool | None]


class ToolChoice9(TypedDict):
    type: Literal['function']
    name: str


class CreateResponseRequest(TypedDict):
    model: str
    models: NotRequired[list[str] | None]
    stream: NotRequired[bool | None]
    temperature: NotRequired[float | None]
    top_p: NotRequired[float | None]
    user: NotRequired[str | None]
    input: str | list[Input3 | Input4 | Input5 | Input6 | Input7 | Input8 | Input9]
    instructions: NotRequired[str | None]
    max_output_tokens: NotRequired[int | None]
    text: NotRequired[Text | None]
    reasoning: NotRequired[Reasoning1 | None]
    tools: NotRequired[list[Tool3] | None]
    tool_choice: NotRequired[Literal['none', 'auto', 'required'] | ToolChoice9 | None]
    parallel_tool_calls: NotRequired[bool | None]
    prompt_cache_key: NotRequired[str | None]
    prompt_cache_retention: NotRequired[Literal['in_memory', '24h'] | None]
    safety_identifier: NotRequired[str | None]
    service_tier: NotRequired[Literal['auto', 'default'] | None]
    metadata: NotRequired[dict[str, str] | None]
    include: NotRequired[list[Literal['reasoning.encrypted_content']] | None]
    truncation: NotRequired[Literal['disabled'] | None]
    store: NotRequired[bool | None]
    background: NotRequired[Literal[False] | None]
    previous_response_id: NotRequired[None]
    conversation: NotRequired[None]
    context_management: NotRequired[None]
    prompt: NotRequired[None]
    moderation: NotRequired[None]
    top_logprobs: NotRequired[Literal[0] | None]


class IncompleteDetails(TypedDict):
    reason: Literal['max_output_tokens', 'content_filter']


class ContentItem(TypedDict):
    type: Literal['output_text', 'refusal']


class Output2(TypedDict):
    type: Literal['message']
    id: str
    role: Literal['assistant']
    status: str
    content: list[ContentItem]


class Output3(TypedDict):
    type: Literal['function_call']
    id: str
    call_id: str
    name: str
    arguments: str
    status: str


class SummaryItem1(TypedDict):
    type: Literal['summary_text']
    text: str


class Output4(TypedDict):
    type: Literal['reasoning']
    id: str
    summary: list[SummaryItem1]
    encrypted_content: str | None


class InputTokensDetails(TypedDict):
    cached_tokens: int


class OutputTokensDetails(TypedDict):
    reasoning_tokens: int


class Usage2(TypedDict):
    input_tokens: int
    input_tokens_details: InputTokensDetails
    output_tokens: int
    output_tokens_details: OutputTokensDetails
    total_tokens: int


class CreateResponseAnswer(TypedDict):
    id: str
    object: Literal['response']
    created_at: int
    status: Literal['completed', 'incomplete']
    incomplete_details: IncompleteDetails | None
    model: str
    output: list[Output2 | Output3 | Output4]
    usage: Usage2
    creditsConsumed: float


class ImagesGenerationsRequest(TypedDict):
    prompt: str
    model: NotRequired[str | None]
    n: NotRequired[int | None]
    size: NotRequired[str | None]
    quality: NotRequired[Literal['auto', 'low', 'medium', 'high', 'standard', 'hd'] | None]
    background: NotRequired[Literal['auto', 'transparent', 'opaque'] | None]
    output_format: NotRequired[Literal['png', 'jpeg', 'webp'] | None]
    response_format: NotRequired[Literal['url', 'b64_json'] | None]
    stream: NotRequired[Literal[False, 'false'] | None]


class Voice(TypedDict):
    id: str


class AudioSpeechRequest(TypedDict):
    model: str
    input: str
    voice: str | Voice
    response_format: NotRequired[Literal['mp3'] | None]
    stream_format: NotRequired[Literal['audio'] | None]
    speed: NotRequired[Literal[1] | None]
    instructions: NotRequired[Literal[''] | None]


class AudioTranscriptionsAnswer(TypedDict):
    text: str


class InputReference(TypedDict):
    file_id: NotRequired[str]
    image_url: NotRequired[str]


class CreateVideoRequest(TypedDict):
    prompt: str
    model: NotRequired[str | None]
    seconds: NotRequired[int | None]
    size: NotRequired[str | None]
    input_reference: NotRequired[InputReference | None]


class ListVideosAnswer(TypedDict):
    object: Literal['list']
    data: list[OpenAIVideo]
    first_id: str | None
    last_id: str | None
    has_more: bool


class ReplacedItem(TypedDict):
    generation: int
    retiresAt: str


class GetWebhookSecretAnswer(TypedDict):
    secret: str
    generation: int
    replaced: list[ReplacedItem]


class RotateWebhookSecretRequest(TypedDict):
    overlapSeconds: NotRequired[int]


class RotateWebhookSecretAnswer(TypedDict):
    secret: str
    generation: int
    replaced: list[ReplacedItem]


class Data1(TypedDict):
    noticeId: str
    credits: float
    threshold: float


class Data2(TypedDict):
    noticeId: str
    keyId: str
    name: str
    limit: float
    per: Literal['day', 'week', 'month', 'total']
    used: float
    resetsAt: str | None


class Notice(TypedDict):
    state: Literal['waiting', 'delivering', 'delivered', 'gone', 'failed']
    attempts: int
    lastStatus: int | None
    lastError: str | None
    type: Literal['account.balance.low', 'key.limit.near', 'key.limit.reached']
    createdAt: str
    data: Data1 | Data2


class GetNoticesAnswer(TypedDict):
    url: str | None
    lowBalanceCredits: float | None
    notices: list[Notice]


class SetNoticesRequest(TypedDict):
    url: str | None
    lowBalanceCredits: NotRequired[float | None]


class Data3(TypedDict):
    noticeId: str
    credits: float
    threshold: float


class Data4(TypedDict):
    noticeId: str
    keyId: str
    name: str
    limit: float
    per: Literal['day', 'week', 'month', 'total']
    used: float
    resetsAt: str | None


class Notice1(TypedDict):
    state: Literal['waiting', 'delivering', 'delivered', 'gone', 'failed']
    attempts: int
    lastStatus: int | None
    lastError: str | None
    type: Literal['account.balance.low', 'key.limit.near', 'key.limit.reached']
    createdAt: str
    data: Data3 | Data4


class SetNoticesAnswer(TypedDict):
    url: str | None
    lowBalanceCredits: float | None
    notices: list[Notice1]


class CreateUploadUrlRequest(TypedDict):
    filename: NotRequired[str]
    contentType: NotRequired[str]
    size: NotRequired[int]
    purpose: NotRequired[str]


class ListFilesAnswer(TypedDict):
    success: Literal[True]
    data: list[File]
    hasMore: bool
    nextCursor: str | None


class Data5(TypedDict):
    fileId: str
    deletedAt: str


class DeleteFileAnswer(TypedDict):
    success: Literal[True]
    data: Data5


class DeleteJobMediaAnswer(TypedDict):
    success: Literal[True]
    data: JobOutput
    credits: Credits


class Budget(TypedDict):
    limit: float
    per: Literal['day', 'week', 'month', 'total']
    used: float
    remaining: float
    resetsAt: str | None


class Key(TypedDict):
    keyId: str
    keyPrefix: str
    name: str
    createdAt: int
    expiresAt: int | None
    lastUsedAt: int | None
    scopes: list[Literal['chat', 'models:read', 'keys:read', 'keys:write', 'usage:read', 'storage:write', 'files:delete', 'studio:image', 'studio:video', 'studio:audio', 'studio:read']]
    allowedModels: list[str] | None
    limit: KeyLimit | None
    budget: Budget | None


class ListApiKeysAnswer(TypedDict):
    keys: list[Key]


class CreateApiKeyRequest(TypedDict):
    name: str
    expiresAt: NotRequired[int | None]
    scopes: NotRequired[list[Literal['chat', 'models:read', 'keys:read', 'keys:write', 'usage:read', 'storage:write', 'files:delete', 'studio:image', 'studio:video', 'studio:audio', 'studio:read']]]
    allowedModels: NotRequired[list[str]]
    limit: NotRequired[KeyLimit]


class CreateApiKeyAnswer(TypedDict):
    keyId: str
    keyPrefix: str
    name: str
    createdAt: int
    expiresAt: int | None
    lastUsedAt: int | None
    scopes: list[Literal['chat', 'models:read', 'keys:read', 'keys:write', 'usage:read', 'storage:write', 'files:delete', 'studio:image', 'studio:video', 'studio:audio', 'studio:read']]
    allowedModels: list[str] | None
    limit: KeyLimit | None
    key: str


class RotateApiKeyRequest(TypedDict):
    overlapSeconds: NotRequired[int]
    expiresAt: NotRequired[int | None]


class Replaced(TypedDict):
    keyId: str
    expiresAt: int


class RotateApiKeyAnswer(TypedDict):
    keyId: str
    keyPrefix: str
    name: str
    createdAt: int
    expiresAt: int | None
    lastUsedAt: int | None
    scopes: list[Literal['chat', 'models:read', 'keys:read', 'keys:write', 'usage:read', 'storage:write', 'files:delete', 'studio:image', 'studio:video', 'studio:audio', 'studio:read']]
    allowedModels: list[str] | None
    limit: KeyLimit | None
    key: str
    replaced: Replaced


class SetApiKeyLimitRequest(TypedDict):
    limit: KeyLimit | None


class RevokeApiKeyAnswer(TypedDict):
    success: Literal[True]
    keyId: str


class GetKeyAnswer(TypedDict):
    keyId: str
    keyPrefix: str
    name: str
    createdAt: int
    expiresAt: int | None
    lastUsedAt: int | None
    scopes: list[Literal['chat', 'models:read', 'keys:read', 'keys:write', 'usage:read', 'storage:write', 'files:delete', 'studio:image', 'studio:video', 'studio:audio', 'studio:read']]
    allowedModels: list[str] | None
    limit: KeyLimit | None
    organizationId: str
    organizationName: str
    userId: str
    role: Literal['owner', 'admin', 'member', 'viewer']
    budget: Budget | None


class Session(TypedDict):
    expiresAt: str
    sessionId: str


class Operator(TypedDict):
    expiresAt: str
    name: str | None


class GetSessionAnswer(TypedDict):
    session: Session | None
    operator: Operator | None


class EndSessionAnswer(TypedDict):
    success: Literal[True]


class UseSignInLinkRequest(TypedDict):
    token: str


class Session1(TypedDict):
    expiresAt: str
    sessionId: str
    keyId: str
    createdAt: str


class ListSessionsAnswer(TypedDict):
    sessions: list[Session1]


class EndSessionByIdAnswer(TypedDict):
    success: Literal[True]
    sessionId: str


class Balance(TypedDict):
    available: float
    reserved: float
    total: float


class Window(TypedDict):
    limit: float | None
    used: float
    remaining: float | None
    startedAt: str | None
    resetAt: str | None


class Storage(TypedDict):
    limit: int
    used: int
    remaining: int


class GetUsageAnswer(TypedDict):
    credits: float
    balance: Balance
    window: Window
    storage: Storage
    usage: list[UsageRecord]
    hasMore: bool
    nextCursor: str | None


Capability: TypeAlias = Literal['image/generate', 'image/edit', 'image/upscale', 'image/remove-background', 'image/batch', 'video/generate', 'video/upscale', 'video/remove-background', 'voiceover/generate', 'dialogue/generate', 'music/plan', 'music/generate', 'sfx/generate', 'audio/transcribe']


class Error7(TypedDict):
    code: Literal['Unauthorized', 'FORBIDDEN', 'ORGANIZATION_SUSPENDED', 'STORAGE_QUOTA_EXCEEDED', 'INVALID_REQUEST', 'UNKNOWN_MODEL', 'UNSUPPORTED_PARAMETER', 'CONFLICTING_FIELDS', 'INVALID_INPUT_URL', 'KEY_QUOTA_REACHED', 'NOT_FOUND', 'JOB_NOT_FOUND', 'METHOD_NOT_ALLOWED', 'MEDIA_DELETED', 'REQUEST_TIMEOUT', 'JOB_ALREADY_DONE', 'JOB_NOT_REFUNDABLE', 'JOB_NOT_DONE', 'KEY_ALREADY_CREATED', 'ANSWER_NOT_KEPT', 'JOB_RUNNING', 'OUTCOME_UNDECIDED', 'KEY_ALREADY_REPLACED', 'REQUEST_IN_PROGRESS', 'UPLOAD_IN_PROGRESS', 'ALREADY_UPLOADED', 'PAYLOAD_TOO_LARGE', 'FILE_TOO_LARGE', 'UNSUPPORTED_MEDIA_TYPE', 'IDEMPOTENCY_KEY_REUSED', 'INSUFFICIENT_CREDITS', 'KEY_LIMIT_EXCEEDED', 'WINDOW_LIMIT_EXCEEDED', 'Rate limit exceeded. Please slow down.', 'WINDOW_EXHAUSTED', 'CONTEXT_LENGTH_EXCEEDED', 'PROVIDER_REJECTED_INPUT', 'CONTENT_POLICY', 'PROVIDER_ERROR', 'STORAGE_ERROR', 'DEADLINE_EXCEEDED', 'OUTCOME_UNKNOWN', 'CANCELED', 'JOB_LOST', 'SERVICE_UNAVAILABLE', 'Internal server error']
    message: str
    retryable: bool


class JobFields(TypedDict):
    jobId: str
    keyId: str
    type: str
    model: str | None
    provider: str
    prompt: str | None
    status: Literal['queued', 'in_progress', 'completed', 'failed', 'canceled']
    done: bool
    phase: Literal['queued', 'waiting_for_provider', 'submitting', 'generating', 'storing', 'verifying_outcome', 'done']
    progress: Progress | None
    createdAt: str
    startedAt: str | None
    completedAt: str | None
    deadlineAt: str
    mediaDeletedAt: str | None
    error: Error7 | None
    billing: Billing
    metadata: dict[str, str]
    requestId: str
    statusUrl: str
    cancelUrl: str


class JobTimeline(TypedDict):
    jobId: str
    request: dict[str, Any]
    createdAt: str
    steps: list[JobStep]


class Webhook(TypedDict):
    jobId: str
    url: str
    state: Literal['waiting', 'delivering', 'delivered', 'gone', 'failed']
    attempts: int
    nextAttemptAt: str | None
    createdAt: str
    updatedAt: str
    deliveries: list[WebhookDelivery]


class ImageGenerateAnswer(TypedDict):
    success: Literal[True]
    data: ImageGenerateResult
    credits: Credits


class ImageEditAnswer(TypedDict):
    success: Literal[True]
    data: ImageEditResult
    credits: Credits


class ImageUpscaleAnswer(TypedDict):
    success: Literal[True]
    data: ImageUpscaleResult
    credits: Credits


class ImageRemoveBackgroundAnswer(TypedDict):
    success: Literal[True]
    data: ImageRemoveBackgroundResult
    credits: Credits


class ImageBatchAnswer(TypedDict):
    success: Literal[True]
    data: ImageBatchResult
    credits: Credits


class VideoGenerateAnswer(TypedDict):
    success: Literal[True]
    data: VideoGenerateResult
    credits: Credits


class VideoUpscaleAnswer(TypedDict):
    success: Literal[True]
    data: VideoUpscaleResult
    credits: Credits


class VideoRemoveBackgroundAnswer(TypedDict):
    success: Literal[True]
    data: VideoRemoveBackgroundResult
    credits: Credits


class VoiceoverGenerateAnswer(TypedDict):
    success: Literal[True]
    data: VoiceoverGenerateResult
    credits: Credits


class DialogueGenerateAnswer(TypedDict):
    success: Literal[True]
    data: DialogueGenerateResult
    credits: Credits


class MusicGenerateAnswer(TypedDict):
    success: Literal[True]
    data: MusicGenerateResult
    credits: Credits


class SfxGenerateAnswer(TypedDict):
    success: Literal[True]
    data: SfxGenerateResult
    credits: Credits


class AudioTranscribeAnswer(TypedDict):
    success: Literal[True]
    data: AudioTranscribeResult
    credits: Credits


class GetJobTimelineAnswer(TypedDict):
    success: Literal[True]
    data: JobTimeline


class GetJobWebhookAnswer(TypedDict):
    success: Literal[True]
    data: Webhook
