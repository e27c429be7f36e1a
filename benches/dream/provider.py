"""The simulated provider of `dream`: OpenAI's protocol on 127.0.0.1, chat and embeddings, with a log of what was paid.

    provider.py '{"chat_seconds": 0.6, "embedding_seconds": 0.2, "concurrency": 64, "requests_per_minute": 6000}'

Prints its URL; `GET /stats` tells what was asked since `POST /reset`. What it says is in `replies.py`: a function of
the request, in the form that each judge's prompt asks for. The crate `simulator` is not used here: its answers are
words by chance, and Ragas' prompts state their schema in the text, where it does not look.
"""

import asyncio
import base64
import hashlib
import json
import sys
import time
from collections import defaultdict

import replies
from aiohttp import web

# The longest burst after a pause, in seconds of the rate.
BURST = 1.0


def tokens(text):
    """A rough count, the same for everyone: a token is four bytes."""
    return (len(text.encode()) + 3) // 4


def text_of(content):
    """A message's text."""
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content or [])


class Log:
    """What was asked and paid, by model and kind of request."""

    def __init__(self, before=None):
        self.rows = defaultdict(lambda: defaultdict(int))
        self.seen, self.texts = (before.seen, before.texts) if before else (set(), set())
        self.refused = self.not_understood = self.abandoned = self.in_flight = self.most_in_flight = 0
        self.latest = 0.0
        self.cpu = time.process_time()

    def paid(self, model, kind, body, texts, prompt, completion):
        """A request that was answered. A text that a model embeds again is paid again, whatever stands beside it."""
        row = self.rows[model, kind]
        key = hashlib.blake2b(json.dumps(body, sort_keys=True).encode(), digest_size=16).digest()
        new = key not in self.seen
        self.seen.add(key)
        row["requests"] += 1
        row["unique"] += new
        row["prompt_tokens"] += prompt
        row["completion_tokens"] += completion
        if kind != "embedding":
            row["prompt_tokens_again"] += 0 if new else prompt
            row["completion_tokens_again"] += 0 if new else completion
        for text in texts:
            pair = model, text
            row["texts"] += 1
            row["unique_texts"] += pair not in self.texts
            row["prompt_tokens_again"] += tokens(text) if pair in self.texts else 0
            self.texts.add(pair)

    def stats(self):
        """All of it."""
        return {
            "rows": [{"model": model, "kind": kind, **row} for (model, kind), row in sorted(self.rows.items())],
            "refused": self.refused,
            "not_understood": self.not_understood,
            "abandoned": self.abandoned,
            "most_in_flight": self.most_in_flight,
            "cpu_seconds": time.process_time() - self.cpu,
            "latest_answer_seconds": self.latest,
        }


class Provider:
    """Limits, latency, replies."""

    def __init__(self, settings):
        self.settings = settings
        self.rate = settings["requests_per_minute"] / 60
        self.allowed, self.refilled = self.rate * BURST, time.monotonic()
        self.log = Log()

    def admitted(self):
        """Takes a place, or none."""
        now = time.monotonic()
        self.allowed = min(self.rate * BURST, self.allowed + (now - self.refilled) * self.rate)
        self.refilled = now
        if self.log.in_flight >= self.settings["concurrency"] or self.allowed < 1:
            return False
        self.allowed -= 1
        return True

    async def handle(self, request, answer, seconds):
        """Answers after the latency; what is refused is not paid."""
        log = self.log
        body = await request.json()
        if not self.admitted():
            log.refused += 1
            error = {"message": "Rate limit reached", "type": "requests", "code": "rate_limit_exceeded"}
            return web.json_response({"error": error}, status=429, headers={"retry-after": "1"})
        log.in_flight += 1
        log.most_in_flight = max(log.most_in_flight, log.in_flight)
        try:
            due = time.monotonic() + seconds
            made = answer(body)
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            log.latest = max(log.latest, time.monotonic() - due)
        except replies.NotUnderstood as error:
            log.not_understood += 1
            print(f"not understood: {error}: {json.dumps(body)[:3000]}", file=sys.stderr, flush=True)
            return web.json_response({"error": {"message": str(error), "type": "invalid_request_error"}}, status=400)
        except asyncio.CancelledError:
            log.abandoned += 1
            raise
        finally:
            log.in_flight -= 1
        reply, paid = made
        log.paid(body["model"], *paid[:1], body, *paid[1:])
        return web.json_response(reply)

    async def chat(self, request):
        """`/v1/chat/completions`."""
        return await self.handle(request, self.chat_reply, self.settings["chat_seconds"])

    async def embeddings(self, request):
        """`/v1/embeddings`."""
        return await self.handle(request, self.embedding_reply, self.settings["embedding_seconds"])

    def chat_reply(self, body):
        """The answer, and what is paid for it."""
        if body.get("stream"):
            raise replies.NotUnderstood("nobody here streams")
        messages = [text_of(message.get("content")) for message in body["messages"]]
        kind, choices, logprobs = replies.chat(body, messages)
        prompt, completion = sum(4 + tokens(message) for message in messages), sum(map(tokens, choices))
        reply = {
            "id": "chatcmpl-1", "object": "chat.completion", "created": 1767225600, "model": body["model"],
            "choices": [{"index": i, "message": {"role": "assistant", "content": text, "refusal": None},
                         "logprobs": logprobs, "finish_reason": "stop"} for i, text in enumerate(choices)],
            "usage": {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion},
        }  # fmt: skip
        return reply, (kind, [], prompt, completion)

    def embedding_reply(self, body):
        """The vectors, and what is paid for them."""
        texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
        if not all(isinstance(text, str) for text in texts):
            raise replies.NotUnderstood("token ids instead of texts")
        vectors = [replies.vector(body["model"], text) for text in texts]
        if body.get("encoding_format") == "base64":
            given = [base64.b64encode(vector.tobytes()).decode() for vector in vectors]
        else:
            given = [vector.tolist() for vector in vectors]
        data = [{"object": "embedding", "index": i, "embedding": vector} for i, vector in enumerate(given)]
        prompt = sum(map(tokens, texts))
        usage = {"prompt_tokens": prompt, "total_tokens": prompt}
        reply = {"object": "list", "data": data, "model": body["model"], "usage": usage}
        return reply, ("embedding", texts, prompt, 0)

    async def stats(self, _):
        """`GET /stats`."""
        return web.json_response(self.log.stats())

    async def reset(self, _):
        """`POST /reset`: counts from zero, and still knows what was asked before."""
        self.log = Log(self.log)
        return web.json_response({})


async def main():
    """Serves until it is ended."""
    settings = {"chat_seconds": 0.6, "embedding_seconds": 0.2, "concurrency": 64, "requests_per_minute": 6000}
    provider = Provider({**settings, **(json.loads(sys.argv[1]) if len(sys.argv) > 1 else {})})
    application = web.Application(client_max_size=64 << 20)
    application.add_routes([
        web.post("/v1/chat/completions", provider.chat),
        web.post("/v1/embeddings", provider.embeddings),
        web.get("/stats", provider.stats),
        web.post("/reset", provider.reset),
    ])  # fmt: skip
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = site._server.sockets[0].getsockname()[1]
    print(f"http://127.0.0.1:{port}", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
