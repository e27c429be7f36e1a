"""The filters of LlamaIndex' vector index beside ours."""

import random

from given import same_ranking
from llama_index.core.vector_stores.types import FilterOperator, MetadataFilter, MetadataFilters
from reasons_stages import MISSING_FIELD, OTHER_TYPE, TRUE_IS_ONE
from searched import meaning, rows
from told import outcome

TOP = 6
LISTS = 400
OPERATORS = {"eq": FilterOperator.EQ, "ne": FilterOperator.NE, "gt": FilterOperator.GT, "ge": FilterOperator.GTE,
             "lt": FilterOperator.LT, "le": FilterOperator.LTE, "in": FilterOperator.IN}  # fmt: skip
# Its filters take neither true nor false, nor lists of several types.
VALUES = {"year": [2018, 2020, 2023, 2026, 2030], "language": ["en", "de", "hi", "fr"], "version": [1, 1.5, 2, "2"]}


def compared(table, side, index):
    draw = random.Random(25)
    row = table.row("MetadataFilters: filter", "questions")
    for _ in range(LISTS):
        text = side.chunks[draw.randrange(len(side.chunks))]["text"][:80]
        tests = []
        for field in draw.sample(list(VALUES), draw.randint(1, 2)):
            test = draw.choice(list(OPERATORS))
            several = [value for value in VALUES[field] if type(value) is type(VALUES[field][0])]
            wanted = draw.sample(several, 2) if test == "in" else draw.choice(VALUES[field])
            tests.append((field, test, wanted))
        wanted = {field: value if test in ("eq", "in") else {test: value} for field, test, value in tests}
        query = {"text": text, "vector": meaning(text), "filter": wanted}
        request = {"retriever": {"dense": {"top_k": TOP}}, "queries": [query]}
        ours = [(hit["row"], hit["score"]) for hit in side.process.ask({"retrieve": request})["hits"][0]]
        conditions = [MetadataFilter(key=f, operator=OPERATORS[t], value=v) for f, t, v in tests]
        retriever = index.as_retriever(similarity_top_k=TOP, filters=MetadataFilters(filters=conditions))
        theirs = outcome(lambda retriever=retriever, text=text: rows(retriever.retrieve(text)), TypeError)
        ranking = side.nearest(text, len(side.chunks))
        steps = []
        for name, passes in [(OTHER_TYPE, in_python), (TRUE_IS_ONE, by_type), (MISSING_FIELD, as_here)]:
            passing = [(at, score) for at, score in ranking if all(passes(side.nodes[at].metadata, *t) for t in tests)]
            steps.append((name, passing[:TOP]))
        row.compare(f"{wanted}", ours, theirs, steps, same)


def same(ours, theirs):
    if isinstance(ours, str) or isinstance(theirs, str):
        return ours == theirs
    return same_ranking(ours, theirs)


def in_python(metadata, field, test, wanted):
    """As Python compares; values of other types are not ordered."""
    value = metadata.get(field)
    if value is None:
        return test == "ne"
    if test in ("eq", "ne", "in"):
        return {"eq": value == wanted, "ne": value != wanted, "in": test == "in" and value in wanted}[test]
    if isinstance(value, str) != isinstance(wanted, str):
        return False
    return {"gt": value > wanted, "ge": value >= wanted, "lt": value < wanted, "le": value <= wanted}[test]


def by_type(metadata, field, test, wanted):
    """As Python compares within a type; true is no number."""
    value = metadata.get(field)
    kind = lambda value: "number" if type(value) in (int, float) else type(value)  # noqa: E731
    if value is not None and test == "in":
        return value in [one for one in wanted if kind(one) == kind(value)]
    if value is not None and kind(value) != kind(wanted):
        return test == "ne"
    return in_python(metadata, field, test, wanted)


def as_here(metadata, field, test, wanted):
    return field in metadata and by_type(metadata, field, test, wanted)
