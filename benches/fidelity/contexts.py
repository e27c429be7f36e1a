"""What found chunks become for the model: windows of sentences, and merged parents."""

import itertools
import random

import numpy as np
from given import Given, same_ranking
from llama_index.core import Document, StorageContext
from llama_index.core.node_parser import HierarchicalNodeParser, SentenceWindowNodeParser
from llama_index.core.postprocessor import MetadataReplacementPostProcessor
from llama_index.core.retrievers import AutoMergingRetriever
from llama_index.core.schema import NodeRelationship, NodeWithScore
from parsers import has_clusters
from reasons_llama import NO_NEXT, SPACE, WINDOW_TWICE


def windows(table, process, texts):
    """Windows of found sentences after MetadataReplacementPostProcessor."""
    texts = {name: text for name, text in texts.items() if text.strip() and not has_clusters(text)}
    listed = [{"path": name, "text": text} for name, text in texts.items()]
    draw = random.Random(3)
    for size in (3, 1):
        parser = SentenceWindowNodeParser.from_defaults(window_size=size)
        replace = MetadataReplacementPostProcessor(target_metadata_key="window")
        rows = {}
        for number, chunk in enumerate(
            process.ask({"chunk": {"chunker": {"sentence_window": {"window_size": size, "language": "english"}}, "documents": listed}})[
                "chunks"
            ]
        ):
            rows.setdefault(chunk["document"], []).append(number)
        row = table.row(f"MetadataReplacementPostProcessor, window {size}", "lists of hits")
        asked, expected = [], []
        for name, text in texts.items():
            nodes = parser.get_nodes_from_documents([Document(text=text)])
            for _ in range(3):
                picked = draw.sample(range(len(nodes)), min(len(nodes), draw.randint(1, 6)))
                scores = sorted((np.float32(draw.random()).item() for _ in picked), reverse=True)
                asked.append([{"row": rows[name][i], "score": score} for i, score in zip(picked, scores)])
                found = replace.postprocess_nodes(
                    [NodeWithScore(node=nodes[i].model_copy(), score=s) for i, s in zip(picked, scores)]
                )
                theirs = [(node.text, node.score) for node in found]
                # As the text stands: the sentences hold the white space after them.
                reach = [(max(0, i - size), i + size + 1) for i in picked]
                sentences = [node.metadata["original_text"] for node in nodes]
                assert [" ".join(sentences[a:b]) for a, b in reach] == [text for text, _ in theirs]
                plain = [("".join(sentences[a:b]).strip(), score) for (a, b), (_, score) in zip(reach, theirs)]
                once = [pair for at, pair in zip(first_of(reach, len(nodes)), plain) if at]
                expected.append((name, theirs, plain, once))
        answers = process.ask({"context": {"hits": asked}})["passages"]
        for answer, (name, theirs, plain, once) in zip(answers, expected):
            ours = [(passage["text"], passage["score"]) for passage in answer]
            row.compare(name, ours, theirs, [(SPACE, plain), (WINDOW_TWICE, once)], same_ranking)


def first_of(reach, n):
    """Whether each window is the first of its kind."""
    known = set()
    for a, b in reach:
        window = (a, min(b, n))
        yield window not in known
        known.add(window)


def merges(table, process, texts):
    """AutoMergingRetriever on given hits of the leaves."""
    # Texts with grapheme clusters of several characters are left out, because the two sides may cut them in different
    # places. The tables of the parsers compare them.
    texts = {name: text for name, text in texts.items() if len(text) > 2000 and not has_clusters(text)}
    listed = [{"path": name, "text": text} for name, text in texts.items()]
    draw = random.Random(4)
    for settings, threshold in [({}, 0.5), ({"chunk_sizes": [512, 96], "chunk_overlap": 0}, 0.4),
                                ({"chunk_sizes": [1024, 256, 64, 32], "chunk_overlap": 8}, 0.25)]:  # fmt: skip
        chunker = {"hierarchical": {**settings, "merge_threshold": threshold, "language": "english"}}
        ours = process.ask({"chunk": {"chunker": chunker, "documents": listed}})["chunks"]
        parser = HierarchicalNodeParser.from_defaults(**settings)
        nodes = [
            node for name, text in texts.items() for node in parser.get_nodes_from_documents([Document(text=text)])
        ]
        if [node.text for node in nodes if node.text] != [chunk["text"] for chunk in ours]:
            raise RuntimeError("the chunks differ: see the tables of the parsers")
        linked = with_links(nodes)
        storages = [StorageContext.from_defaults(), StorageContext.from_defaults()]
        for storage, kept in zip(storages, (nodes, linked)):
            storage.docstore.add_documents(kept)
        number = {node.node_id: i for i, node in enumerate(nodes)}
        leaves = [i for i, chunk in enumerate(ours) if chunk["searchable"]]
        asked, found = [], []
        for _ in range(400):
            # A stretch of neighbours with gaps, and a few from elsewhere.
            start = draw.randrange(len(leaves))
            stretch = leaves[start : start + draw.randint(2, 14)]
            picked = [i for i in stretch if draw.random() < draw.choice([0.5, 0.8, 1.0])] + draw.sample(
                leaves, draw.randint(0, 3)
            )
            picked = list(dict.fromkeys(picked))
            if draw.random() < 0.6:
                draw.shuffle(picked)
            scores = sorted(
                (draw.randint(1, 8) / 8 if draw.random() < 0.3 else np.float32(draw.random()).item() for _ in picked),
                reverse=True,
            )
            asked.append([{"row": i, "score": score} for i, score in zip(picked, scores)])
            both = []
            for storage, kept in zip(storages, (nodes, linked)):
                given = Given([(kept[i], score) for i, score in zip(picked, scores)])
                merging = AutoMergingRetriever(given, storage, simple_ratio_thresh=threshold)
                both.append([(number[hit.node.node_id], hit.score) for hit in merging.retrieve("?")])
            found.append(both)
        row = table.row(
            f"AutoMergingRetriever {threshold}, {settings.get('chunk_sizes', [2048, 512, 128])}", "lists of hits"
        )
        place = [(chunk["document"], chunk["span"]["start"], chunk["span"]["end"]) for chunk in ours]
        for case, (answer, both) in enumerate(zip(process.ask({"context": {"hits": asked}})["passages"], found)):
            mine = [((p["document"], p["span"]["start"], p["span"]["end"]), p["score"]) for p in answer]
            theirs, with_next = [[(place[i], score) for i, score in hits] for hits in both]
            row.compare(f"list {case}", mine, theirs, [(NO_NEXT, with_next)], same_ranking)


def with_links(nodes):
    """Copies of the nodes that know both neighbours among their parent's children."""
    families, copies = {}, {node.node_id: node.model_copy(deep=True) for node in nodes}
    for node in nodes:
        if node.parent_node:
            families.setdefault(node.parent_node.node_id, []).append(copies[node.node_id])
    for family in families.values():
        for node, following in itertools.pairwise(family):
            node.relationships[NodeRelationship.NEXT] = following.as_related_node_info()
            following.relationships[NodeRelationship.PREVIOUS] = node.as_related_node_info()
    return list(copies.values())
