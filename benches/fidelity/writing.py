"""What is searched for a question: LlamaIndex' transforms of queries beside our query writers, with the same replies."""

import json
import random

from filtering import compared
from given import same_ranking
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.chat_engine import CondenseQuestionChatEngine
from llama_index.core.indices.query.query_transform import HyDEQueryTransform
from llama_index.core.question_gen import LLMQuestionGenerator
from llama_index.core.retrievers import QueryFusionRetriever, VectorIndexAutoRetriever
from llama_index.core.schema import QueryBundle
from llama_index.core.tools import ToolMetadata
from llama_index.core.vector_stores.types import MetadataInfo, VectorStoreInfo
from reasons_stages import (
    ALSO_WHOLE,
    NOT_AS_ASKED,
    NOTHING_WRITTEN,
    ON_ONE_LINE,
    REPEATS_QUESTION,
    TIES,
)
from refining import some
from searched import Remembered, Searched, own_rows, reciprocal, rows
from told import Told, outcome, tell

QUESTIONS = 240
TOP = 6


def queries(table, process, texts):
    side = Searched(process, some(texts, 20), 96)
    index = side.index()
    several(table, side, index)
    passages(table, side, index)
    parts(table, side)
    conversations(table, side)


def question(side, draw, words=5):
    """A stretch of a chunk."""
    text = side.chunks[draw.randrange(len(side.chunks))]["text"].split()
    start = draw.randrange(len(text))
    return " ".join(text[start : start + draw.randint(2, words)]) + "?"


def ask(process, config, asked, *replies, history=()):
    """What ours searches for a question."""
    tell(process, *replies)
    turns = [{"question": asked, "history": list(history)}]
    return process.ask({"write": {"query": config, "turns": turns}})["written"][0]


def found(process, written):
    """What ours finds for it."""
    pairs = zip(written["queries"], written["vectors"])
    queries = [{"text": q["text"], "vector": v, "filter": q.get("filter")} for q, v in pairs]
    request = {"retriever": {"dense": {"top_k": TOP}}, "questions": [queries]}
    return own_rows(process.ask({"find": request})["passages"][0])


def wordings(side, draw, asked, most):
    """Other wordings, of which some say nothing, repeat the question, or are too many."""
    kind = draw.choice(["plain"] * 6 + ["none", "repeated", "too many", "same"])
    others = [question(side, draw, 8) for _ in range(draw.randint(1, most))]
    if kind == "none":
        return []
    if kind == "repeated":
        others[0] = asked.upper().replace("?", " ?")
    if kind == "same":
        others[0] = asked
    if kind == "too many":
        others += [question(side, draw, 8) for _ in range(most + 1 - len(others))]
    return others


def new(asked, others):
    """Those that do not repeat the words of the question or of one before."""
    words = lambda text: "".join(c.lower() if c.isalnum() else " " for c in text).split()  # noqa: E731
    seen, kept = [words(asked)], []
    for other in others:
        if words(other) and words(other) not in seen:
            kept.append(other)
        seen.append(words(other))
    return kept


def several(table, side, index):
    """QueryFusionRetriever with four queries, three of them written by the model."""
    draw = random.Random(21)
    row = table.row("QueryFusionRetriever, 4 queries: multi_query", "questions")
    retriever = Remembered(index.as_retriever(similarity_top_k=TOP))
    for _ in range(QUESTIONS):
        asked = question(side, draw)
        others = wordings(side, draw, asked, 3)

        def fused(lines, top=TOP, asked=asked):
            fusion = QueryFusionRetriever(
                [retriever],
                llm=Told("\n".join(lines)),
                num_queries=4,
                mode="reciprocal_rerank",
                similarity_top_k=top,
                use_async=False,
            )
            return rows(fusion.retrieve(asked))

        usable = others if len(others) <= 3 else []
        fresh = new(asked, usable)
        steps = [(NOT_AS_ASKED, fused(usable)), (REPEATS_QUESTION, fused(fresh)),
                 (TIES, reciprocal([side.nearest(text, TOP) for text in [asked, *fresh]], TOP) if fresh else fused(fresh))]  # fmt: skip
        written = ask(side.process, {"multi_query": {"model": "chat"}}, asked, {"queries": others})
        mine = found(side.process, written)
        if len(written["queries"]) == 1:
            # One list keeps its own scores; only its order says the same.
            row.compare(asked, [at for at, _ in mine], [at for at, _ in fused(others)],
                        [(name, [at for at, _ in value]) for name, value in steps])  # fmt: skip
        else:
            row.compare(asked, mine, fused(others), steps, same_ranking)


def passages(table, side, index):
    """HyDEQueryTransform, whose vectors the index' retriever averages."""
    draw = random.Random(22)
    row = table.row("HyDEQueryTransform: hyde, n 1", "questions")
    for _ in range(QUESTIONS):
        asked = question(side, draw)
        reply = side.chunks[draw.randrange(len(side.chunks))]["text"]
        reply = draw.choice([" ".join(reply.split()), reply, f"\n{reply}\n\n", asked, "", "?!", " \n"])
        bundle = HyDEQueryTransform(llm=Told(reply)).run(asked)
        retriever = index.as_retriever(similarity_top_k=TOP)
        theirs = rows(retriever.retrieve(bundle))
        says = any(c.isalnum() for c in reply)
        plain = theirs if says else rows(retriever.retrieve(QueryBundle(asked)))
        written = ask(side.process, {"hyde": {"model": "chat", "n": 1}}, asked, reply)
        row.compare(asked, found(side.process, written), theirs, [(NOTHING_WRITTEN, plain)], same_ranking)


def parts(table, side):
    """LLMQuestionGenerator: the parts that a sub-question engine would ask."""
    draw = random.Random(23)
    row = table.row("LLMQuestionGenerator: decompose", "questions")
    tools = [ToolMetadata(name="corpus", description="all documents")]
    for _ in range(QUESTIONS):
        asked = question(side, draw)
        others = wordings(side, draw, asked, 4)
        items = json.dumps([{"sub_question": other, "tool_name": "corpus"} for other in others])
        generator = LLMQuestionGenerator.from_defaults(llm=Told(items))
        make = lambda generator=generator, asked=asked: generator.generate(tools, QueryBundle(asked))  # noqa: E731
        made = outcome(make, ValueError)
        theirs = made if isinstance(made, str) else [part.sub_question for part in made]
        usable = theirs if isinstance(theirs, list) and len(theirs) <= 4 else []
        steps = [(NOTHING_WRITTEN, [] if isinstance(theirs, str) else theirs), (NOT_AS_ASKED, usable),
                 (REPEATS_QUESTION, new(asked, usable)), (ALSO_WHOLE, [asked, *new(asked, usable)])]  # fmt: skip
        written = ask(side.process, {"decompose": {"model": "chat"}}, asked, {"queries": others})
        row.compare(asked, [query["text"] for query in written["queries"]], theirs, steps)


def conversations(table, side):
    """CondenseQuestionChatEngine: the question that stands alone."""
    draw = random.Random(24)
    row = table.row("CondenseQuestionChatEngine: condense", "questions")
    for _ in range(QUESTIONS):
        asked = question(side, draw)
        history = [question(side, draw) for _ in range(draw.choice([0, 1, 2, 3]))]
        alone = question(side, draw, 9)
        alone = draw.choice([alone, alone, f" {alone}\n", alone.replace(" ", "\n", 1), asked, "", "..."])
        roles = [("user", "assistant")[i % 2] for i in range(len(history))]
        engine = CondenseQuestionChatEngine.from_defaults(query_engine=None, llm=Told(alone))
        messages = [ChatMessage(role=role, content=text) for role, text in zip(roles, history)]
        theirs = engine._condense_question(messages, asked)
        said = theirs if any(c.isalnum() for c in theirs) else asked
        steps = [(NOTHING_WRITTEN, said), (ON_ONE_LINE, " ".join(said.split()) if history else said)]
        turns = [{"role": role, "content": text} for role, text in zip(roles, history)]
        written = ask(side.process, {"condense": {"model": "chat"}}, asked, {"question": alone}, history=turns)
        row.compare(asked, written["queries"][0]["text"], theirs, steps)


def fields(name):
    """What the metadata of a document says; it differs from document to document."""
    draw = random.Random(name)
    every = {"year": draw.randint(2018, 2026), "language": draw.choice(["en", "de", "hi"]),
             "version": draw.choice([1, 1.5, 2, "2", True])}  # fmt: skip
    return {key: value for key, value in every.items() if draw.random() < 0.8}


def filters(table, process, texts):
    """The filters of a vector index, and those that a model writes."""
    side = Searched(process, some(texts, 20), 96, metadata=fields)
    compared(table, side, side.index())
    draw = random.Random(26)
    row = table.row("VectorIndexAutoRetriever: self_query", "questions")
    index = side.index()
    info = VectorStoreInfo(
        content_info="documents",
        metadata_info=[MetadataInfo(name=n, type=t, description=n) for n, t in [("year", "int"), ("language", "str")]],
    )
    settings = {"self_query": {"model": "chat", "fields": {"year": "number", "language": "text"}}}
    for _ in range(QUESTIONS):
        asked = question(side, draw)
        bounds = {name: draw.randint(2018, 2026) for name in draw.sample(["ge", "le"], draw.randint(0, 2))}
        language = draw.choice([None, "en", "de", "fr"])
        wanted = ({"year": bounds} if bounds else {}) | ({"language": language} if language else {})
        spec = [
            {"key": "year", "value": year, "operator": {"ge": ">=", "le": "<="}[name]} for name, year in bounds.items()
        ]
        spec += [{"key": "language", "value": language, "operator": "=="}] if language else []
        reply = json.dumps({"query": asked, "filters": spec, "top_k": None})
        unreadable = draw.random() < 0.1
        auto = VectorIndexAutoRetriever(
            index, info, llm=Told('{"query": 3}' if unreadable else reply), similarity_top_k=TOP
        )
        theirs = rows(auto.retrieve(asked))
        written = ask(side.process, settings, asked, {"filter": 3} if unreadable else {"filter": wanted})
        row.compare(f"{asked} {wanted}", found(side.process, written), theirs, [], same_ranking)
