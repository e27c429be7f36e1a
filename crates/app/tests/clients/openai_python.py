"""Asks a service with OpenAI's Python client.

    python openai_python.py http://127.0.0.1:8080 MODEL [--plain]

Ends with 1 and a sentence at the first thing that is wrong. `--plain` is for a
model that may leave out markers such as [1]. A key is read from REVERIE_KEY.
"""

import os
import sys
import time

import openai

arguments = [argument for argument in sys.argv[1:] if argument != "--plain"]
if len(arguments) != 2:
    sys.exit(__doc__)
base, model = arguments[0].rstrip("/"), arguments[1]
cites = "--plain" not in sys.argv
client = openai.OpenAI(base_url=f"{base}/v1", api_key=os.environ.get("REVERIE_KEY", "none"), max_retries=0, timeout=120)
# A question of its own for each run: the same one again is answered from what is kept, and not streamed by the model.
QUESTION = [{"role": "user", "content": f"What do the documents say? {time.time_ns()}"}]
AGAIN = [{"role": "user", "content": f"What else do the documents say? {time.time_ns()}"}]


def check(holds, sentence, *seen):
    if not holds:
        sys.exit(f"wrong: {sentence}" + "".join(f"\n  seen: {value!r}" for value in seen))


def raises(kind, status, call, sentence):
    """The call raises this class of error, in OpenAI's shape."""
    try:
        answer = call()
    except openai.APIStatusError as error:
        check(type(error) is kind, f"{sentence} raises {kind.__name__}", error)
        check(error.status_code == status, f"{sentence} has status {status}", error)
        check(error.body and error.body.get("message") and error.type, f"{sentence} says why", error.body)
        check(error.request_id, f"{sentence} has a request id", error.response.headers)
        return error
    return check(False, f"{sentence} raises {kind.__name__}", answer)


def check_annotations(text, annotations):
    check(annotations or not cites, "an answer has annotations", text)
    for annotation in annotations:
        cited = annotation["url_citation"]
        marker = text[cited["start_index"] : cited["end_index"]]
        check(marker[:1] == "[" and marker[-1:] == "]", "an annotation covers its marker", text, annotation)
        check(cited["url"].startswith("http") and cited["title"], "an annotation leads to its source", annotation)


# What is served.
served = [entry.id for entry in client.models.list()]
check(model in served, "the model is listed", served)
check(client.models.retrieve(model).id == model, "the model can be retrieved")
error = raises(openai.NotFoundError, 404, lambda: client.models.retrieve("no such"), "an unknown model")
check(error.code == "model_not_found", "its code is model_not_found", error.code)

# A whole answer.
whole = client.chat.completions.create(model=model, messages=QUESTION, temperature=0.5, max_tokens=64, user="test")
message = whole.choices[0].message
check(whole.object == "chat.completion" and whole.model == model, "it is a chat completion of the model", whole)
check(message.role == "assistant" and message.content, "the assistant answers", message)
check(whole.choices[0].finish_reason == "stop", "the answer ends with `stop`", whole.choices[0])
check_annotations(message.content, [annotation.model_dump() for annotation in message.annotations])
check(whole.usage.total_tokens == whole.usage.prompt_tokens + whole.usage.completion_tokens, "tokens add up", whole.usage)
check(whole.model_extra["sources"] and whole.model_extra["citations"], "sources are told at the top", whole)
check(client.chat.completions.with_raw_response.create(model=model, messages=QUESTION).request_id, "it has a request id")

# A streamed answer, raw: its parts are the text, and its usage comes last.
chunks = list(client.chat.completions.create(
    model=model, messages=AGAIN, stream=True, stream_options={"include_usage": True}
))
text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
check(len({chunk.id for chunk in chunks}) == 1, "all chunks have one id", {chunk.id for chunk in chunks})
check(chunks[0].choices[0].delta.role == "assistant", "the first chunk tells the role", chunks[0])
check(text, "the stream has a text", chunks)
ends = [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices and chunk.choices[0].finish_reason]
check(ends == ["stop"], "one chunk says `stop`", ends)
check(not chunks[-1].choices and chunks[-1].usage.total_tokens > 0, "the last chunk has the usage", chunks[-1])
check(all(chunk.usage is None for chunk in chunks[:-1]), "no other chunk has it")
annotations = [
    annotation
    for chunk in chunks if chunk.choices
    for annotation in (chunk.choices[0].delta.model_extra or {}).get("annotations") or []
]
check_annotations(text, annotations)
with_sources = [chunk for chunk in chunks if (chunk.model_extra or {}).get("sources")]
check(len(with_sources) == 1, "one chunk has the sources", len(with_sources))
chunks = list(client.chat.completions.create(model=model, messages=QUESTION, stream=True))
check(all(chunk.usage is None and chunk.choices for chunk in chunks), "nobody gets a usage who does not ask for it")

# The same through the client's own collector of chunks.
with client.chat.completions.stream(model=model, messages=QUESTION) as stream:
    kinds = {event.type for event in stream}
    collected = stream.get_final_completion()
check({"chunk", "content.delta", "content.done"} <= kinds, "the collector tells deltas and the end", kinds)
check(collected.choices[0].finish_reason == "stop", "the collector knows the end", collected.choices[0])
check(collected.choices[0].message.content, "the collector has the text", collected)

# A conversation, with parts and with roles that are left out.
turns = [
    {"role": "system", "content": "Be brief."},
    *QUESTION,
    {"role": "assistant", "content": message.content},
    {"role": "user", "content": [{"type": "text", "text": "And what more?"}]},
]
check(client.chat.completions.create(model=model, messages=turns).choices[0].message.content, "a second turn is answered")

# Responses.
response = client.responses.create(model=model, input=QUESTION[0]["content"], include=["file_search_call.results"])
check(response.status == "completed" and response.output_text, "a response has a text", response)
search, said = response.output
check(search.type == "file_search_call" and search.results[0].text, "the search and its results are told", search)
check(said.type == "message", "the message comes after the search", said)
citations = said.content[0].annotations
check(citations or not cites, "a response has citations", said)
for citation in citations:
    check(citation.type == "file_citation" and citation.filename, "a citation names its file", citation)
check(response.usage.total_tokens > 0, "a response has its usage", response.usage)
with client.responses.stream(model=model, input=[*QUESTION]) as stream:
    events = list(stream)
    final = stream.get_final_response()
check([event.sequence_number for event in events if hasattr(event, "sequence_number")] ==
      list(range(len([event for event in events if hasattr(event, "sequence_number")]))), "events are numbered from 0")
check(events[0].type == "response.created" and events[-1].type == "response.completed", "the first and last events", events)
deltas = "".join(event.delta for event in events if event.type == "response.output_text.delta")
check(deltas and deltas == final.output_text, "the deltas are the text", deltas, final.output_text)

# Vectors. This client asks for base64 by itself and decodes it.
embedders = [name for name in served if name != model]
if embedders:
    vectors = client.embeddings.create(model=embedders[0], input=["one", "two"])
    numbers = client.embeddings.create(model=embedders[0], input=["one", "two"], encoding_format="float")
    check([entry.index for entry in vectors.data] == [0, 1], "vectors are in their order", vectors.data)
    check(vectors.data[0].embedding != vectors.data[1].embedding, "two texts have two vectors")
    far = max(abs(a - b) for x, y in zip(vectors.data, numbers.data) for a, b in zip(x.embedding, y.embedding))
    check(far < 1e-6, "base64 and numbers are the same vectors", far)
    check(client.embeddings.create(model=embedders[0], input="one").usage.prompt_tokens > 0, "a single text is taken")
    raises(openai.BadRequestError, 400, lambda: client.embeddings.create(model=embedders[0], input=[]), "no text")
    raises(openai.BadRequestError, 400, lambda: client.embeddings.create(model=embedders[0], input=[[1, 2]]), "tokens")

# Errors are the exceptions that programs catch.
create = client.chat.completions.create
raises(openai.NotFoundError, 404, lambda: create(model="no such", messages=QUESTION), "a question to an unknown model")
raises(openai.BadRequestError, 400, lambda: create(model=model, messages=[]), "no message")
raises(openai.BadRequestError, 400, lambda: create(model=model, messages=QUESTION, n=2), "two answers")
raises(openai.BadRequestError, 400, lambda: create(model=model, messages="x"), "a text for messages")
raises(openai.BadRequestError, 400, lambda: create(model=model, messages=[{"role": "user", "content": " "}]), "an empty question")
error = raises(
    openai.BadRequestError, 400, lambda: create(model=model, messages=[], stream=True), "a stream of no message"
)
check(error.param == "messages", "the error names its field", error.param)
previous = lambda: client.responses.create(model=model, input="x", previous_response_id="resp_1")  # noqa: E731
raises(openai.BadRequestError, 400, previous, "a response after another")
if "REVERIE_KEY" in os.environ:
    stranger = client.with_options(api_key="rv-unknown")
    raises(openai.AuthenticationError, 401, lambda: stranger.models.list(), "an unknown key")
print("ok")
