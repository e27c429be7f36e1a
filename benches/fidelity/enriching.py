"""What is written beside chunks and where texts are cut by meaning: LlamaIndex' extractors and semantic splitter."""

import asyncio
import contextlib
import io
import random

from llama_index.core import Document
from llama_index.core.extractors import DocumentContextExtractor, QuestionsAnsweredExtractor
from llama_index.core.node_parser import SemanticSplitterNodeParser
from llama_index.core.node_parser.text.utils import split_by_sentence_tokenizer
from llama_index.core.schema import MetadataMode, NodeRelationship, RelatedNodeInfo
from llama_index.core.storage.docstore import SimpleDocumentStore
from parsers import has_clusters, joined
from reasons_llama import CLUSTERS, EMPTY
from reasons_stages import KEY_NAME, NOTHING_WRITTEN, QUESTION_TWICE, WHITE_SPACE
from refining import some
from searched import Meaning, Searched, meanings
from told import Told, tell

KINDS = ("questions", "contextual")


def extractors(table, process, texts):
    """The text that is embedded of each chunk."""
    side = Searched(process, dict(list(some(texts, 9).items())[:60]), 200)
    draw = random.Random(31)
    sentence = lambda: " ".join(draw.sample(side.chunks[draw.randrange(len(side.chunks))]["text"].split() * 9, 7)) + "?"  # noqa: E731
    for kind in KINDS:
        replies = []
        for _ in side.chunks:
            lines = [sentence() for _ in range(draw.randint(1, 3) if kind == "questions" else 1)]
            lines = draw.choice([lines, lines, lines, lines, []]) if draw.random() < 0.3 else lines
            if kind == "questions" and lines and draw.random() < 0.2:
                lines = [*lines[:2], lines[0]]
            replies.append([" ".join(line.split()) for line in lines])
        tell(process, *({"questions": lines} if kind == "questions" else "\n".join(lines) for lines in replies))
        ours = process.ask({"enrich": {kind: {"model": "chat"}}})["enriched"]
        row = table.row(
            f"{'QuestionsAnswered' if kind == 'questions' else 'DocumentContext'}Extractor: {kind}", "chunks"
        )
        for chunk, node, lines, mine in zip(side.chunks, side.nodes, replies, ours):
            theirs = embedded(kind, node, "\n".join(lines))
            written = theirs if lines else chunk["text"]
            plain = embedded(kind, node, "\n".join(lines), "{value}") if lines else written
            once = embedded(kind, node, "\n".join(dict.fromkeys(lines)), "{value}") if lines else written
            steps = [(NOTHING_WRITTEN, written), (KEY_NAME, plain), (QUESTION_TWICE, once)]
            row.compare(chunk["text"], mine, theirs, steps)


def embedded(kind, node, reply, template=None):
    """The text of a node that is embedded after its extractor was told this."""
    node = node.model_copy(deep=True)
    node.metadata = {}
    document = Document(text="the document", id_="document")
    node.relationships[NodeRelationship.SOURCE] = RelatedNodeInfo(node_id="document")
    if kind == "questions":
        extractor = QuestionsAnsweredExtractor(llm=Told(reply), questions=3, show_progress=False)
    else:
        store = SimpleDocumentStore()
        store.add_documents([document])
        extractor = DocumentContextExtractor(docstore=store, llm=Told(reply), show_progress=False)
    with contextlib.redirect_stderr(io.StringIO()):
        (metadata,) = asyncio.run(extractor.aextract([node]))
    node.metadata |= metadata
    if template:
        node.metadata_template = template
    return node.get_content(MetadataMode.EMBED)


def semantic(table, process, texts):
    """SemanticSplitterNodeParser, document by document."""
    texts = some(texts, 6)
    process.embed = meanings
    listed = [{"path": name, "text": text} for name, text in texts.items()]
    for buffer, percentile in [(1, 95), (0, 80), (3, 50), (1, 100)]:
        settings = {"buffer_size": buffer, "breakpoint_percentile": percentile, "least_size": 0, "most_size": 1_000_000, "language": "english"}  # fmt: skip
        ours = {name: [] for name in texts}
        for chunk in process.ask({"chunk": {"chunker": {"semantic": settings}, "documents": listed}})["chunks"]:
            ours[chunk["document"]].append(chunk["text"])
        parser = SemanticSplitterNodeParser.from_defaults(
            embed_model=Meaning(), buffer_size=buffer, breakpoint_percentile_threshold=percentile
        )
        whole = SemanticSplitterNodeParser.from_defaults(
            embed_model=Meaning(),
            buffer_size=buffer,
            breakpoint_percentile_threshold=percentile,
            sentence_splitter=joined(split_by_sentence_tokenizer()),
        )
        row = table.row(f"SemanticSplitterNodeParser {buffer}, {percentile}", "documents")
        for name, text in texts.items():
            theirs = [node.text for node in parser.get_nodes_from_documents([Document(text=text)])]
            steps, changed = [], theirs
            if has_clusters(text):
                changed = [node.text for node in whole.get_nodes_from_documents([Document(text=text)])]
                steps.append((CLUSTERS, changed))
            stripped = [text.strip() for text in changed]
            steps += [(WHITE_SPACE, stripped), (EMPTY, [t for t in stripped if t])]
            row.compare(name, ours[name], theirs, steps)
