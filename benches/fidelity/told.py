"""Models that say what they are told, the same to both sides."""

import collections
import json

from langchain_core.language_models import FakeListChatModel
from langchain_core.runnables import RunnableLambda
from llama_index.core.llms import CompletionResponse, CustomLLM, LLMMetadata
from pydantic import PrivateAttr


class Told(CustomLLM):
    """LlamaIndex' model: gives its replies in their order."""

    _replies: collections.deque = PrivateAttr(default_factory=collections.deque)

    def __init__(self, *replies):
        super().__init__()
        self._replies.extend(replies)

    @property
    def metadata(self):
        return LLMMetadata(context_window=1 << 20)

    def complete(self, prompt, formatted=False, **_):
        return CompletionResponse(text=self._replies.popleft())

    def stream_complete(self, prompt, formatted=False, **_):
        yield self.complete(prompt)


class Structured(FakeListChatModel):
    """LangChain's model: fills the class that is wanted with what it is told."""

    fields: dict = {}

    def __init__(self, **fields):
        super().__init__(responses=[""], fields=fields)

    def with_structured_output(self, schema, **_):
        return RunnableLambda(lambda _: schema(**self.fields))


def tell(process, *replies):
    """Ours: gives its replies in their order, JSON where it is no text. Asked once more, it repeats the last one."""
    rest, last = collections.deque(replies), [None]

    def chat(question):
        # After the system's and the user's messages comes why the reply cannot be used.
        if len(question["messages"]) <= 2:
            last[0] = rest.popleft()
        return {"text": last[0] if isinstance(last[0], str) else json.dumps(last[0])}

    process.chat = chat


def outcome(work, *errors):
    """What comes of it, or the name of the error."""
    try:
        return work()
    except errors as error:
        return type(error).__name__
