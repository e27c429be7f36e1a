"""LlamaIndex' node parsers beside our chunkers, document by document."""

import re

import regex
from llama_index.core import Document
from llama_index.core.node_parser import (
    HierarchicalNodeParser,
    SentenceSplitter,
    SentenceWindowNodeParser,
    TokenTextSplitter,
)
from llama_index.core.node_parser.text.utils import split_by_sentence_tokenizer
from llama_index.core.schema import TextNode
from pydantic import PrivateAttr
from reasons_llama import CLUSTERS, EMPTY, MARKS, METADATA, TWO_TOKENS

# Of so many marks in a row not each can be a sentence.
MARKS_IN_A_ROW = re.compile(r"[.!?]{33,}")


class Bounded(SentenceSplitter):
    """Cuts a piece into sentences 32 times over at most."""

    _depth: int = PrivateAttr(default=0)

    def _split(self, text, chunk_size):
        self._depth += 1
        try:
            return super()._split(text, chunk_size)
        finally:
            self._depth -= 1

    def _get_splits_by_fns(self, text):
        every = self._split_fns
        # The second is the one for sentences.
        self._split_fns = every if self._depth <= 32 else every[:1]
        try:
            return super()._get_splits_by_fns(text)
        finally:
            self._split_fns = every


def has_clusters(text):
    """Whether a text has a grapheme cluster of several characters, other than a Windows line end."""
    return any(len(cluster) > 1 and cluster != "\r\n" for cluster in regex.findall(r"\X", text))


def joined(split):
    """Wraps a function that splits a text: parts that were cut within a grapheme cluster are joined again."""

    def whole(text):
        parts = []
        for part in split(text):
            if parts and part and is_within_cluster(parts[-1][-64:], part[:1]):
                parts[-1] += part
            else:
                parts.append(part)
        return parts

    return whole


def is_within_cluster(before, after):
    if before.endswith("\r") and after == "\n":
        return False
    return len(regex.findall(r"\X", before + after)) == len(regex.findall(r"\X", before))


class Whole(Bounded):
    """Like `Bounded`, but never cuts within a grapheme cluster."""

    def __init__(self, **settings):
        super().__init__(**settings)
        self._split_fns = [joined(split) for split in self._split_fns]
        self._sub_sentence_split_fns = [joined(split) for split in self._sub_sentence_split_fns]


def whole_clusters(kind, settings):
    """A function that makes nodes with LlamaIndex, changed in two ways to do what ours does: with the change of
    `our_way`, and without cuts in grapheme clusters."""
    if kind == "token":
        splitter = TokenTextSplitter(**settings)
        splitter._split_fns = [joined(split) for split in splitter._split_fns]
        return lambda text: [TextNode(text=part) for part in splitter.split_text(text)]
    if kind == "sentence_window":
        sentences = joined(split_by_sentence_tokenizer())
        parser = SentenceWindowNodeParser.from_defaults(sentence_splitter=sentences, **settings)
    elif kind == "hierarchical":
        sizes = settings.get("chunk_sizes", [2048, 512, 128])
        known = {f"{size}": Whole(chunk_size=size, chunk_overlap=settings.get("chunk_overlap", 20)) for size in sizes}
        parser = HierarchicalNodeParser.from_defaults(
            chunk_sizes=None, node_parser_ids=list(known), node_parser_map=known
        )
    else:
        parser = Whole(**settings)
    return lambda text: parser.get_nodes_from_documents([Document(text=text)])


def our_way(kind, settings):
    """A function that makes nodes as LlamaIndex would if it did as we do, and what the difference is called."""
    if kind == "token":
        splitter = TokenTextSplitter(**settings)
        return TWO_TOKENS, lambda text: [TextNode(text=part) for part in splitter.split_text(text)]
    if kind == "sentence":
        parser = Bounded(**settings)
    elif kind == "hierarchical":
        sizes = settings.get("chunk_sizes", [2048, 512, 128])
        known = {f"{size}": Bounded(chunk_size=size, chunk_overlap=settings.get("chunk_overlap", 20)) for size in sizes}
        parser = HierarchicalNodeParser.from_defaults(
            chunk_sizes=None, node_parser_ids=list(known), node_parser_map=known
        )
    else:
        return MARKS, None
    return (
        MARKS,
        lambda text: parser.get_nodes_from_documents([Document(text=text)]) if MARKS_IN_A_ROW.search(text) else None,
    )


def chunks(table, process, texts):
    """The four parsers, document by document."""
    listed = [{"path": name, "text": text} for name, text in texts.items()]
    for kind, settings in [
        ("sentence", {"chunk_size": 1024, "chunk_overlap": 200}),
        ("sentence", {"chunk_size": 256, "chunk_overlap": 32}),
        ("sentence", {"chunk_size": 64, "chunk_overlap": 63}),
        ("sentence", {"chunk_size": 100, "chunk_overlap": 0, "paragraph_separator": "\n\n", "separator": "e"}),
        ("token", {"chunk_size": 128, "chunk_overlap": 20}),
        ("sentence_window", {"window_size": 3}),
        ("hierarchical", {}),
        ("hierarchical", {"chunk_sizes": [512, 96], "chunk_overlap": 0}),
    ]:
        parser = {"sentence": SentenceSplitter, "token": TokenTextSplitter, "sentence_window": SentenceWindowNodeParser.from_defaults,
                  "hierarchical": HierarchicalNodeParser.from_defaults}[kind](**settings)  # fmt: skip
        ours = {name: [] for name in texts}
        # LlamaIndex cuts every text by its rules for English, so ours must too.
        own = settings if kind == "token" else {**settings, "language": "english"}
        for chunk in process.ask({"chunk": {"chunker": {kind: own}, "documents": listed}})["chunks"]:
            ours[chunk["document"]].append((chunk["level"], chunk["parent"], chunk["text"]))
        shown = ", ".join(repr(value) if isinstance(value, str) else str(value) for value in settings.values())
        row = table.row(f"{type(parser).__name__} {shown or '2048, 512, 128'}", "documents")
        name_of_change, change = our_way(kind, settings)
        whole = whole_clusters(kind, settings)
        for name, text in texts.items():
            theirs = levels(parser.get_nodes_from_documents([Document(text=text)]))
            changed = change(text) if change else None
            changed = theirs if changed is None else levels(changed)
            steps = [(name_of_change, changed)]
            if has_clusters(text):
                changed = levels(whole(text))
                steps.append((CLUSTERS, changed))
            steps.append((EMPTY, [chunk for chunk in changed if chunk[2]]))
            row.compare(name, ours[name], theirs, steps)


def levels(nodes):
    """Level, number of the parent, and text of each node."""
    numbers, found = {}, []
    for number, node in enumerate(nodes):
        numbers[node.node_id] = number
        parent = numbers[node.parent_node.node_id] if node.parent_node else None
        found.append((0 if parent is None else found[parent][0] + 1, parent, node.text))
    return found


def with_metadata(table, process, texts):
    settings = {"chunk_size": 128, "chunk_overlap": 20}
    row = table.row("SentenceSplitter 128, 20, documents with metadata", "documents")
    texts = {name: text for name, text in texts.items() if name.startswith(("prose/", "mixed/"))}
    listed = [{"path": name, "text": text} for name, text in texts.items()]
    ours = {name: [] for name in texts}
    own = {**settings, "language": "english"}
    for chunk in process.ask({"chunk": {"chunker": {"sentence": own}, "documents": listed}})["chunks"]:
        ours[chunk["document"]].append(chunk["text"])
    splitter = SentenceSplitter(**settings)
    for name, text in texts.items():
        metadata = {"file_path": f"/corpus/{name}.txt", "creation_date": "2026-01-31"}
        theirs, plain = (
            [node.text for node in splitter.get_nodes_from_documents([Document(text=text, metadata=m)])]
            for m in (metadata, {})
        )
        row.compare(name, ours[name], theirs, [(METADATA, plain)])
