"""Lists of hits as one: the formulas of LlamaIndex, AutoRAG and Qdrant beside those of our hybrid retriever.

Every side is given the lists that our dense and BM25 retrievers found, which are those of LlamaIndex
(see its rankings) up to the order of equal scores.
"""

import importlib.util
import random
import sys
import types
from importlib.metadata import distribution

import numpy as np
from given import Given, retriever, same_ranking, same_stretched
from llama_index.core.retrievers import QueryFusionRetriever
from outcome import Table
from qdrant_client.hybrid.fusion import distribution_based_score_fusion, reciprocal_rank_fusion
from qdrant_client.models import ScoredPoint
from reasons_fusion import (
    AUTORAG,
    BEYOND,
    EMPTY_LIST,
    EQUAL_RANKS,
    EQUAL_SCORES,
    FROM_ONE,
    LACKING,
    QDRANT,
    ROUNDED,
    SAMPLE,
    TIES,
)
from refining import some
from retrievers import by_row
from searched import Searched, meaning, rows
from writing import question

TOP, CANDIDATES = 8, 20


class Lists:
    """Questions, with what vectors and words find for them and what ours makes of both."""

    def __init__(self, process, texts):
        # Copies of a text have equal scores, which is what formulas disagree about.
        again = {f"copies/{i}": "\n\n\n".join([f"The copper bridge {i} is old."] * 25) for i in range(2)}
        self.process = process
        side = Searched(process, some(texts), 96)
        draw = random.Random(41)
        self.questions = [question(side, draw, 7) for _ in range(220)]
        self.questions += ["zzzyx qwrtp", "?!", "copper bridge", "the copper bridge 1"] * 4
        self.questions += [draw.choice(question(side, draw).split()) for _ in range(60)]
        listed = [{"path": chunk["document"] + f"/{i}", "text": chunk["text"]} for i, chunk in enumerate(side.chunks)]
        listed += [{"path": f"{name}/{i}", "text": part} for name, text in again.items()
                   for i, part in enumerate(text.split("\n\n\n"))]  # fmt: skip
        settings = {"chunk_size": 100_000, "chunk_overlap": 0}
        chunks = process.ask({"chunk": {"chunker": {"sentence": settings}, "documents": listed}})["chunks"]
        process.ask({"index": {"vectors": [meaning(chunk["text"]) for chunk in chunks]}})
        self.nodes = [side.nodes[0].model_copy(update={"text": c["text"], "metadata": {"row": i}, "id_": f"{i}"}, deep=True)
                      for i, c in enumerate(chunks)]  # fmt: skip
        self.dense = self.ours("dense", top_k=CANDIDATES)
        self.bm25 = self.ours("bm25", top_k=CANDIDATES)

    def ours(self, kind, **settings):
        queries = [{"text": text, "vector": meaning(text)} for text in self.questions]
        found = self.process.ask({"retrieve": {"retriever": retriever(kind, **settings), "queries": queries}})["hits"]
        return [[(hit["row"], hit["score"]) for hit in hits] for hits in found]

    def hybrid(self, fusion):
        """Question by question: it, the two lists, and ours."""
        ours = self.ours("hybrid", top_k=TOP, candidates=CANDIDATES, fusion=fusion)
        return zip(self.questions, self.dense, self.bm25, ours)


def weighted(normalization, weight):
    return {"weighted": {"dense_weight": weight, "normalization": normalization}}


def scaled(scores, scale):
    """One list on one of our scales: the formula, for where it is not the peer's."""
    scores = np.array(scores, dtype=float)
    if not len(scores):
        return scores
    least, most, mean, deviation = scores.min(), scores.max(), scores.mean(), scores.std()
    if scale in LEAST:
        floor = LEAST[scale]
        return np.maximum(0, (scores - floor) / (most - floor)) if most > floor else scores * 0
    if most == least:
        return scores * 0 + (0.5 if scale == "dbsf" else float(most > 0))
    if scale == "dbsf":
        return ((scores - mean) / (6 * deviation) + 0.5).clip(0, 1)
    return (scores - least) / (most - least if scale == "min_max" else deviation)


LEAST = {"cosine": -1.0, "bm25": 0.0}


def summed(dense, bm25, weight, scales, k=None):
    """The weighted sum on our scales, equal sums by row."""
    sums = {}
    for ranking, share, scale in [(dense, weight, scales[0]), (bm25, 1 - weight, scales[1])]:
        for (row, _), score in zip(ranking, scaled([score for _, score in ranking], scale)):
            sums[row] = sums.get(row, 0) + share * float(score)
    return by_row(list(sums.items()), 1e-7)[:k]


def equal_scores(ranking):
    return len({score for _, score in ranking}) == 1


def beyond(ranking):
    """Whether a score is more than three deviations away."""
    scores = np.array([score for _, score in ranking])
    return len(scores) > 1 and scores.std() > 0 and np.abs(scores - scores.mean()).max() > 3 * scores.std()


def distributions(table, process, texts):
    """LlamaIndex' `dist_based_score` beside `dbsf`."""
    lists = Lists(process, texts)
    for weight in (0.5, 0.8):
        row = table.row(f"QueryFusionRetriever dist_based_score {weight}: dbsf", "questions")
        for text, dense, bm25, ours in lists.hybrid(weighted("dbsf", weight)):

            def fused(k, dense=dense, bm25=bm25, weight=weight, text=text):
                given = [Given([(lists.nodes[at], score) for at, score in ranking]) for ranking in (dense, bm25)]
                fusion = QueryFusionRetriever(
                    given,
                    mode="dist_based_score",
                    retriever_weights=[weight, 1 - weight],
                    similarity_top_k=k,
                    num_queries=1,
                    use_async=False,
                )
                return rows(fusion.retrieve(text))

            settled = by_row(fused(None), 1e-7)
            ours_way = summed(dense, bm25, weight, ("dbsf", "dbsf"))
            steps = [(TIES, settled[:TOP])]
            if any(map(equal_scores, (dense, bm25))):
                steps.append((EQUAL_SCORES, ours_way[:TOP]))
            elif any(map(beyond, (dense, bm25))):
                steps.append((BEYOND, ours_way[:TOP]))
            row.compare(text, ours, fused(TOP), steps, same_stretched)


def file_of_autorag(name):
    """One file of AutoRAG as it was published. The package as a whole asks for some fifty others and a newer LangChain,
    beside which Ragas does not start; of what this file imports, the formulas need nothing."""
    for parent, contents in [("autorag", {}), ("autorag.strategy", {"select_best": None}), ("autorag.nodes", {}),
                             ("autorag.nodes.hybridretrieval", {}),
                             ("autorag.nodes.hybridretrieval.base", {"HybridRetrieval": object}),
                             ("autorag.nodes.hybridretrieval.run", {"evaluate_retrieval_node": None})]:  # fmt: skip
        sys.modules.setdefault(parent, types.ModuleType(parent)).__dict__.update(contents)
    path = distribution("AutoRAG").locate_file(f"autorag/nodes/hybridretrieval/{name}.py")
    spec = importlib.util.spec_from_file_location(f"autorag.nodes.hybridretrieval.{name}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# AutoRAG's name, ours, and our scales.
SCALES = [("mm", "min_max", ("min_max", "min_max")), ("tmm", "theoretical_minimum", ("cosine", "bm25")),
          ("z", "z_score", ("z_score", "z_score")), ("dbsf", "dbsf", ("dbsf", "dbsf"))]  # fmt: skip


def autorag(process, texts):
    table = Table("AutoRAG 0.3.27, its files hybrid_cc and hybrid_rrf", AUTORAG)
    lists = Lists(process, texts)
    convex, ranks = file_of_autorag("hybrid_cc"), file_of_autorag("hybrid_rrf")
    np.seterr(all="ignore")
    for name, ours_name, scales in SCALES:
        for weight in (0.5, 0.8):
            # Our z-scores count from the last hit and theirs from the mean: what can be equal is the order.
            shown, same = (", the order", same_order) if name == "z" else ("", same_fused)
            row = table.row(f"hybrid_cc {name} {weight}: {ours_name}{shown}", "questions")
            for text, dense, bm25, ours in lists.hybrid(weighted(ours_name, weight)):
                ids = [[at for at, _ in ranking] for ranking in (dense, bm25)]
                scores = [[score for _, score in ranking] for ranking in (dense, bm25)]

                def fused(k, ids=ids, scores=scores, name=name, weight=weight):
                    found, sums = convex.fuse_per_query(*ids, *scores, name, weight, k, -1.0, 0.0)
                    return [(int(at), float(score)) for at, score in zip(found, sums)]

                ours_way = summed(dense, bm25, weight, scales)
                if not bm25:
                    row.compare(text, ours, "ValueError", [(EMPTY_LIST, ours_way[:TOP])], same)
                    continue
                steps = [(TIES, by_row(fused(None), 1e-7)[:TOP])]
                if any(map(equal_scores, (dense, bm25))) and name != "tmm":
                    steps.append((EQUAL_SCORES, ours_way[:TOP]))
                elif name == "z":
                    steps.append((LACKING, ours_way[:TOP]))
                elif name == "dbsf" and any(map(beyond, (dense, bm25))):
                    steps.append((BEYOND, ours_way[:TOP]))
                row.compare(text, ours, fused(TOP), steps, same)
    row = table.row("hybrid_rrf 60: rrf", "questions")
    for text, dense, bm25, ours in lists.hybrid({"rrf": {}}):
        ids = tuple([at for at, _ in ranking] for ranking in (dense, bm25))
        scores = tuple([score for _, score in ranking] for ranking in (dense, bm25))
        falling = tuple([-float(rank) for rank in range(len(ranking))] for ranking in ids)

        def fused(scores, constant, k, ids=ids):
            found, sums = ranks.rrf_pure(ids, scores, constant, k)
            return [(int(at), float(score)) for at, score in zip(found, sums)]

        steps = [(FROM_ONE, fused(scores, 59, TOP)), (EQUAL_RANKS, fused(falling, 59, TOP)),
                 (TIES, by_row(fused(falling, 59, None))[:TOP])]  # fmt: skip
        row.compare(text, ours, fused(scores, 60, TOP), steps, same_fused)
    return table


def same_order(ours, theirs):
    return ours == theirs if isinstance(theirs, str) else [at for at, _ in ours] == [at for at, _ in theirs]


def same_fused(ours, theirs):
    return ours == theirs if isinstance(theirs, str) else same_stretched(ours, theirs)


def qdrant(process, texts):
    table = Table("qdrant-client 1.20.0, its local mode", QDRANT)
    lists = Lists(process, texts)
    points = lambda ranking: [ScoredPoint(id=at, version=0, score=score) for at, score in ranking]  # noqa: E731
    pairs = lambda found: [(point.id, point.score) for point in found]  # noqa: E731
    row = table.row("reciprocal_rank_fusion, constant 60: rrf", "questions")
    for text, dense, bm25, ours in lists.hybrid({"rrf": {}}):
        fused = lambda k, both=(dense, bm25): pairs(reciprocal_rank_fusion([*map(points, both)], k, 60))  # noqa: E731
        row.compare(text, ours, fused(TOP), [(TIES, by_row(fused(None))[:TOP])], same_ranking)
    row = table.row("distribution_based_score_fusion, half the sum: dbsf", "questions")
    for text, dense, bm25, ours in lists.hybrid(weighted("dbsf", 0.5)):

        def fused(*rankings, k=None):
            found = distribution_based_score_fusion([*map(points, rankings)], k)
            return [(at, score / 2) for at, score in pairs(found)]

        # Where all scores are 1, no sum is rounded.
        exact = [
            [(at, 1.0) for at, _ in ranking] if ranking and equal_scores(ranking) else ranking
            for ranking in (dense, bm25)
        ]
        whole, sums = {}, {}
        for ranking in exact:
            for at, score in fused(ranking):
                n = len(ranking)
                # Its distance from the mean in deviations of the whole list instead of those of a sample.
                wider = 0.25 + (score - 0.25) * (n / (n - 1)) ** 0.5 if n > 1 else score
                whole[at] = whole.get(at, 0) + wider
                sums[at] = sums.get(at, 0) + min(max(wider, 0), 0.5)
        steps = [(ROUNDED, fused(*exact, k=TOP)), (SAMPLE, sorted(whole.items(), key=lambda hit: -hit[1])[:TOP]),
                 (BEYOND, sorted(sums.items(), key=lambda hit: -hit[1])[:TOP]),
                 (TIES, by_row(list(sums.items()), 1e-7)[:TOP])]  # fmt: skip
        row.compare(text, ours, fused(dense, bm25, k=TOP), steps, same_stretched)
    return table
