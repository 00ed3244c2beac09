"""A user's program with the Python client; prints its results as one line of JSON.

Arguments: the URL of the gateway, a key, the URL of a webhook receiver.
"""

import asyncio
import json
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
import io
import os
from pathlib import Path

import httpx

from studio_gateway import AsyncStudioGateway, BulkTicket, JobTicket, StudioError, StudioGateway
from studio_gateway.schemas import ImageGenerateItem

base_url, api_key, webhook_url = sys.argv[1:]
report = {}


def error_of(call):
    try:
        call()
    except StudioError as error:
        return {
            "code": error.code,
            "status": error.status,
            "jobId": error.job_id,
            "requestId": error.request_id,
            "details": error.details,
        }
    return None


class Unseekable(io.RawIOBase):
    """A stream that can only be read, like a pipe."""

    def __init__(self, content):
        self.inner = io.BytesIO(content)

    def readable(self):
        return True

    def readinto(self, buffer):
        return self.inner.readinto(buffer)


class LostAnswers(httpx.HTTPTransport):
    """Loses the responses of the first two POST and PUT requests, after the service has received them."""

    lost = 0

    def handle_request(self, request):
        response = super().handle_request(request)
        if request.method in ("POST", "PUT") and self.lost < 2:
            self.lost += 1
            response.read()
            raise httpx.ReadError("the connection broke")
        return response


with StudioGateway(api_key=api_key, base_url=f"{base_url}/api/v1/") as client:
    image = client.run("image/generate", {"prompt": "a lighthouse", "webhookUrl": webhook_url})
    report["image"] = image["images"][0]["url"]
    report["estimate"] = client.estimate("image/generate", {"prompt": "a tree"})["credits"]
    report["plan"] = client.run("music/plan", {"prompt": "a song", "music_length_ms": 20_000})
    film = client.submit("video/generate", {"prompt": "[[slow:1s]] waves"})
    report["film"] = [job["status"] for job in client.events(film)]

    speech = client.run("voiceover/generate", {"title": "a talk", "text": "Hello there."})
    Path("talk.mp3").write_bytes(httpx.get(speech["url"]).content)
    upload = client.upload("talk.mp3")
    report["text"] = client.run("audio/transcribe", {"fileId": upload["fileId"]})["text"]
    with open("talk.mp3", "rb") as file:
        opened = client.upload(file)
    report["opened"] = httpx.get(opened["url"]).content == Path("talk.mp3").read_bytes()
    pipe = io.BufferedReader(Unseekable(Path("talk.mp3").read_bytes()))
    piped = client.upload(pipe, content_type="audio/mpeg")
    report["piped"] = httpx.get(piped["url"]).content == Path("talk.mp3").read_bytes()
    kinds = [file["kind"] for file in client.files({"kind": "upload"})]
    report["files"] = kinds

    said = {"model": "gpt-4o", "messages": [{"role": "user", "content": "[[words:20]] go"}]}
    report["chat"] = client.chat(said)["content"]
    report["stream"] = list(client.chat_stream(said))
    broken = {**said, "messages": [{"role": "user", "content": "[[words:9]] [[stream-error:5]]"}]}
    report["brokenStream"] = error_of(lambda: list(client.chat_stream(broken)))

    failing = {"prompt": "[[fail:422]] a tree"}
    report["failed"] = error_of(lambda: client.run("image/generate", failing))
    report["rejected"] = error_of(lambda: client.run("image/generate", {"prompt": "x"}))
    report["late"] = error_of(
        lambda: client.run("image/generate", {"prompt": "[[slow:2s]] late"}, timeout=0.2)
    )

    first = client.submit("image/generate", {"prompt": "one"}, idempotency_key="mine-py")
    client.wait(first)
    second = client.submit("image/generate", {"prompt": "one"}, idempotency_key="mine-py")
    report["replayed"] = first == second
    client.request("DELETE", f"/api/v1/studio/jobs/{first.job_id}/media")
    report["deleted"] = error_of(lambda: client.wait(first))

    slow = client.submit("image/generate", {"prompt": "[[slow:900s]] [[no-webhook]] slow"})
    client.cancel(slow)
    report["canceled"] = error_of(lambda: client.wait(slow))
    report["usage"] = client.request("GET", "/api/v1/usage", params={"limit": 1})["hasMore"]
    report["usageRecords"] = len(list(client.usage()))
    report["requests"] = next(client.requests({"kind": "chat", "status": "completed"}))["kind"]
    report["listed"] = [job["jobId"] for job in client.jobs({"type": "videoGenerate"})] == [film.job_id]
    report["stored"] = client.job(JobTicket.of(first.job_id))["status"]

    # An endless item in the middle: it is canceled when the results of the others are there.
    prompts = {"red": "a lamp", "slow": "[[slow:900s]] a lamp", "bad": "[[fail:422]] a lamp", "blue": "a lamp"}
    items: list[ImageGenerateItem] = [
        {"id": name, "use": "image/generate", "body": {"prompt": prompt}} for name, prompt in prompts.items()
    ]
    report["bulkEstimate"] = client.bulk.estimate(items)["credits"]
    report["bulk"] = []

    def run_until_canceled():
        for result in client.bulk.run(iter(items), {"metadata": {"shop": "x"}}):
            report["bulk"].append([result["id"], result["status"], result["data"] is not None])
            if len(report["bulk"]) == 3:
                newest = client.request("GET", "/api/v1/studio/bulk")["data"][0]
                client.bulk.cancel(BulkTicket(newest["bulkId"]), {"items": "all"})

    report["bulkEnd"] = error_of(run_until_canceled)
    quick = [items[0], items[3], items[2]]
    report["bulkStopped"] = error_of(lambda: list(client.bulk.run(quick, {"maxCredits": 8})))
    endless: ImageGenerateItem = {"use": "image/generate", "body": {"prompt": "[[slow:900s]]"}}
    waiting = client.bulk.start([endless, endless], {"concurrency": 1})
    report["bulkPaused"] = client.bulk.pause(waiting)["stopReason"]
    report["bulkResumed"] = client.bulk.resume(waiting, {"concurrency": 2})["concurrency"]
    report["bulkLate"] = error_of(lambda: client.bulk.wait(waiting, timeout=0.2))
    client.bulk.cancel(waiting, {"items": "all"})
    report["bulkCanceled"] = client.bulk.wait(waiting)["counts"]["canceled"]
    ended = list(client.bulk.results(waiting))
    after = list(client.bulk.results(waiting, cursor=ended[0]["cursor"]))
    report["bulkStates"] = [client.bulk.get(waiting)["status"], len(ended), after == ended[1:]]
    skipped = client.bulk.start([items[0], {**items[1], "body": {"prompt": "x"}}], {"skipInvalid": True})
    report["bulkSkipped"] = [item["path"] for item in skipped.invalid_items]
    report["bulkUnknown"] = error_of(lambda: client.bulk.retry(BulkTicket("bulk_1")))

    steps = [
        {"id": "picture", "use": "image/generate", "body": {"prompt": "a red lamp"}},
        {"id": "large", "use": "image/upscale", "maxCredits": 100, "body": {"imageUrl": {"$from": "picture"}}},
    ]
    waiting = client.submit("pipelines", {"steps": [{**steps[0], "approve": True}]})
    for state in client.events(waiting):
        if state["awaiting"]:
            client.decide(waiting, "picture", {"decision": "reject", "reason": "too dark"})
            break
    many = client.bulk.start([{"id": "choice", "use": "pipelines", "body": {"steps": [{**steps[0], "approve": True}]}}])
    while client.bulk.get(many)["counts"]["awaiting"] == 0:
        time.sleep(0.1)
    decisions = client.bulk.decide(many, {"items": ["choice"], "decision": "reject"})
    report["itemsDecided"] = [decisions["decided"], decisions["items"][0]["id"], client.bulk.wait(many)["status"]]
    report["unapproved"] = error_of(lambda: client.wait(waiting))["code"]
    pipeline = client.submit("pipelines", {"steps": steps})
    whole = client.wait(pipeline)
    again = client.wait(client.resume(pipeline, {"from": "large"}))
    report["pipeline"] = [step["status"] for step in whole["result"]["steps"]]
    report["resumed"] = [again["parentJobId"] == pipeline.job_id, again["billing"]["charged"] < whole["billing"]["charged"]]

try:
    StudioGateway(base_url=base_url)
except ValueError as error:
    report["noKey"] = str(error)
os.environ.update(STUDIO_API_KEY=api_key, STUDIO_API_URL=base_url)
with StudioGateway() as client:
    report["fromEnvironment"] = next(client.usage())["status"]

transport = LostAnswers()
with StudioGateway(api_key=api_key, base_url=base_url, http_client=httpx.Client(transport=transport)) as client:
    client.run("image/generate", {"prompt": "a lost python answer"})
    report["lost"] = transport.lost

with StudioGateway(api_key="gk_live_wrong", base_url=base_url) as client:
    report["wrongKey"] = error_of(lambda: client.chat(said))
with StudioGateway(api_key=api_key, base_url="http://127.0.0.1:9", retries=1) as client:
    report["nobody"] = error_of(lambda: client.chat(said))
split = httpx.MockTransport(lambda _: httpx.Response(200, text='data: {"type":"delta","delta":"a\u2028b\u0085c"}\n\ndata: [DONE]\n\n'))
with StudioGateway(api_key=api_key, base_url=base_url, http_client=httpx.Client(transport=split)) as client:
    report["separators"] = [event["delta"] for event in client.chat_stream(said)]


def lose_stream(_):
    report["streams"] = report.get("streams", 0) + 1
    def events():
        yield b'data: {"done": %s}\n\n' % (b"true" if report["streams"] > 4 else b"false")
        raise httpx.ReadError("lost")
    return httpx.Response(200, content=events())


losing = httpx.Client(transport=httpx.MockTransport(lose_stream))
with StudioGateway(api_key=api_key, base_url=base_url, retries=1, http_client=losing) as client:
    report["states"] = len(list(client.events(JobTicket.of("job_1"))))


class Silent(BaseHTTPRequestHandler):
    def do_POST(self):
        threading.Event().wait(2)

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Silent)
server.daemon_threads = True
threading.Thread(target=server.serve_forever, daemon=True).start()
silent = f"http://127.0.0.1:{server.server_port}"
with StudioGateway(api_key=api_key, base_url=silent, timeout=0.2, retries=0) as client:
    report["silent"] = error_of(lambda: client.submit("image/generate", {"prompt": "a tree"}))
server.shutdown()


async def together():
    async with AsyncStudioGateway(api_key=api_key, base_url=base_url) as client:
        prompts = ("an async tree", "an async house")
        images = await asyncio.gather(
            *(client.run("image/generate", {"prompt": prompt}) for prompt in prompts)
        )
        film = await client.submit("video/generate", {"prompt": "[[slow:1s]] waves"})
        states = [job["status"] async for job in client.events(film)]
        async def lamps():
            for color in ("red", "blue"):
                yield {"use": "image/generate", "body": {"prompt": f"a {color} lamp"}}

        bulk = [result["status"] async for result in client.bulk.run(lamps(), timeout=120)]
        text = "".join([event.get("delta", "") async for event in client.chat_stream(said)])
        upload = await client.upload(Path("talk.mp3").read_bytes(), content_type="audio/mpeg")
        try:
            await client.run("image/generate", failing)
        except StudioError as error:
            code = error.code
        return {
            "images": len(images),
            "bulk": bulk,
            "states": states,
            "words": len(text.split()),
            "file": upload["fileId"],
            "code": code,
        }


report["async"] = asyncio.run(together())
print(json.dumps(report))
