"""One answer of each kind, read by the strict types of openai, anthropic and Open Responses. Prints what each check found."""

import json
import sys
import time

import anthropic
import openai
from openresponses_types import ResponseResource

base, key, recording = sys.argv[1], sys.argv[2], sys.argv[3]
client = openai.OpenAI(base_url=f"{base}/v1", api_key=key, max_retries=0, _strict_response_validation=True)
claude = anthropic.Anthropic(base_url=base, api_key=key, max_retries=0, _strict_response_validation=True)
found = {}


def check(name, run):
    try:
        found[name] = run()
    except Exception as error:  # The test shows the text of each failure.
        found[name] = f"{type(error).__name__}: {error}"[:600]


message = {"role": "user", "content": "hi"}
schema = {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]}
tool = {"type": "function", "function": {"name": "look", "description": "Looks.", "parameters": schema}}
picture = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def chat(model, **fields):
    return client.chat.completions.create(model=model, messages=[message], **fields)


for model in ("gpt-4.1-mini", "gpt-5-mini", "claude-sonnet-5", "gemini-3.5-flash"):
    check(f"chat {model}", lambda: chat(model).object)
    check(f"chat stream {model}", lambda: {chunk.object for chunk in chat(model, stream=True)}.pop())
    check(f"chat tool {model}", lambda: chat(model, tools=[tool], tool_choice="required").choices[0].finish_reason)
    check(f"response {model}", lambda: client.responses.create(model=model, input="hi").object)
    check(
        f"response stream {model}",
        lambda: [event.type for event in client.responses.create(model=model, input="hi", stream=True)][-1],
    )
    check(f"message {model}", lambda: claude.messages.create(model=model, max_tokens=50, messages=[message]).type)
    check(
        f"message stream {model}",
        lambda: [
            event.type for event in claude.messages.create(model=model, max_tokens=50, messages=[message], stream=True)
        ][-1],
    )

check("models", lambda: client.models.list().data[0].object)
check("model", lambda: client.models.retrieve("gpt-5-mini").object)
check("models of Anthropic", lambda: claude.models.list().data[0].type)
check("model of Anthropic", lambda: claude.models.retrieve("claude-sonnet-5").type)
check("tokens", lambda: claude.messages.count_tokens(model="claude-sonnet-5", messages=[message]).input_tokens > 0)
# By default the client requests base64, which its own types reject before it unpacks the vectors.
vectors = {"model": "text-embedding-3-small", "input": "hi", "encoding_format": "float"}
check("embeddings", lambda: client.embeddings.create(**vectors).object)


def run_batch():
    line = {"custom_id": "a", "method": "POST", "url": "/v1/embeddings", "body": vectors}
    file = client.files.create(file=("a.jsonl", json.dumps(line).encode()), purpose="batch")
    request = {"input_file_id": file.id, "endpoint": "/v1/embeddings", "completion_window": "24h"}
    batch = client.batches.create(**request)
    while batch.status in ("validating", "in_progress", "finalizing"):
        time.sleep(0.1)
        batch = client.batches.retrieve(batch.id)
    listed = [client.batches.list().data[0].id == batch.id, client.files.list().data[0].purpose]
    return [batch.status, *listed, client.files.delete(file.id).deleted]


check("batch", run_batch)
check("image", lambda: len(client.images.generate(prompt="a pier", model="nano-banana").data))


def transcribe():
    with open(recording, "rb") as file:
        form = {"model": "scribe_v2", "file": file, "response_format": "verbose_json"}
        return len(client.audio.transcriptions.create(**form).segments) > 0


check("transcription", transcribe)
check("video", lambda: client.videos.create(model="veo", prompt="waves", seconds="4", size="1280x720").object)
check("video without size", lambda: client.videos.create(model="veo", prompt="waves", seconds="4").size)


def respond(**fields):
    raw = client.with_raw_response.responses.create(model="gpt-4.1-mini", **fields)
    return ResponseResource.model_validate(json.loads(raw.http_response.text))


turns = [message, {"role": "assistant", "content": "hello"}, {"role": "user", "content": "and?"}]
flat = {"type": "function", "name": "look", "parameters": schema}
image = [{"role": "user", "content": [{"type": "input_text", "text": "hi"}, {"type": "input_image", "image_url": picture}]}]
phased = [message, {"role": "assistant", "phase": "commentary", "content": "hello"}, {"role": "user", "content": "and?"}]
check("Open Responses: text", lambda: respond(input="hi").status)
check("Open Responses: phases", lambda: respond(input=phased).status)
check("Open Responses: system prompt", lambda: respond(input=[{"role": "system", "content": "Be brief."}, message]).status)
check("Open Responses: tools", lambda: respond(input="hi", tools=[flat], tool_choice="required").output[0].type)
check("Open Responses: picture", lambda: respond(input=image).status)
check("Open Responses: turns", lambda: respond(input=turns).status)


def stream_resources():
    states = []
    for event in client.responses.create(model="gpt-4.1-mini", input="hi", stream=True):
        if hasattr(event, "response"):
            states.append(ResponseResource.model_validate(json.loads(event.response.model_dump_json())).status)
    return states[-1]


check("Open Responses: stream", stream_resources)
print(json.dumps(found))
