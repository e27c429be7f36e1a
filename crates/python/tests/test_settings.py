"""Settings: dictionaries, names, and classes such as `reverie.chunker.Sentence` say the same."""

from __future__ import annotations

import inspect
import json
import pickle
from pathlib import PurePosixPath

import pytest

import reverie
from reverie import _core
from reverie._settings import Component
from workspace import settings

TEXT = "One mill grinds oats. Two mills grind rye. " * 40
KINDS = ("chunker", "retriever", "reranker", "generator", "metric")


def tables(**changes) -> dict:
    """An experiment that needs no model."""
    return {
        "name": "mills",
        "corpus": {"source": "docs"},
        "space": {"chunker": ["sentence"], "retriever": [{"bm25": {"top_k": 1}}]},
        **changes,
    }


def trials(experiment: reverie.Experiment) -> list:
    """Its combinations, with all settings."""
    return experiment._core.trials()


def test_a_chunker_is_a_name_a_dictionary_or_an_object():
    pyarrow = pytest.importorskip("pyarrow")
    documents = pyarrow.record_batch({"path": ["a"], "text": [TEXT]})
    small = [
        reverie.chunker.Sentence(chunk_size=64, chunk_overlap=8),
        {"sentence": {"chunk_size": 64, "chunk_overlap": 8}},
        {"sentence": {"chunk_size": 64, "chunk_overlap": 8, "separator": None}},
        '{"sentence": {"chunk_size": 64, "chunk_overlap": 8}}',
    ]
    made = [reverie.Chunker(each).chunk(documents) for each in small]
    assert made[0].num_rows > 1 and all(chunks.equals(made[0]) for chunks in made)
    usual = ("sentence", reverie.chunker.Sentence(), {"sentence": {}})
    whole = [reverie.Chunker(each).chunk(documents) for each in usual]
    assert all(chunks.equals(whole[0]) for chunks in whole) and not whole[0].equals(made[0])
    again = pickle.loads(pickle.dumps(reverie.Chunker(small[0])))
    assert again.chunk(documents).equals(made[0])


def test_settings_that_cannot_be_are_told_with_their_component():
    with pytest.raises(ValueError, match="chunker: unknown field `chunk_sise`"):
        reverie.Chunker({"sentence": {"chunk_sise": 64}})
    with pytest.raises(ValueError, match="chunker: unknown variant `sentense`"):
        reverie.Chunker("sentense")
    with pytest.raises(ValueError, match="overlap"):
        reverie.Chunker(reverie.chunker.Sentence(chunk_size=8, chunk_overlap=9))
    with pytest.raises(TypeError, match="chunk_sise"):
        reverie.chunker.Sentence(chunk_sise=64)
    with pytest.raises(TypeError, match="model"):
        reverie.reranker.CrossEncoder()
    with pytest.raises(ValueError, match="limits: unknown field `file_byte`"):
        reverie.Parser({"file_byte": 1})


def test_classes_stand_wherever_a_dictionary_does():
    by_class = reverie.Experiment(
        name="mills",
        corpus={"source": PurePosixPath("docs")},
        chunker=[reverie.chunker.Sentence(chunk_size=n, chunk_overlap=0) for n in (128, 256)],
        embedder="emb",
        retriever=[reverie.retriever.Hybrid(top_k=3, fusion=reverie.retrievers.Weighted(dense_weight=0.25))],
        generator=reverie.generator.Compact(model="gpt"),
        models={
            "emb": {"embedding": {"openai": {"model": "emb", "base_url": "http://127.0.0.1:1/v1"}}},
            "gpt": {"chat": {"openai": {"model": "gpt", "base_url": "http://127.0.0.1:1/v1"}}},
        },
        dataset={"path": "golden.jsonl"},
        evaluate={"metrics": [reverie.metric.Recall(k=2), "mrr"]},
    )
    by_table = reverie.Experiment(
        {
            "name": "mills",
            "corpus": {"source": "docs"},
            "models": {
                "emb": {"embedding": {"openai": {"model": "emb", "base_url": "http://127.0.0.1:1/v1"}}},
                "gpt": {"chat": {"openai": {"model": "gpt", "base_url": "http://127.0.0.1:1/v1"}}},
            },
            "dataset": {"path": "golden.jsonl"},
            "space": {
                "chunker": [{"sentence": {"chunk_size": n, "chunk_overlap": 0}} for n in (128, 256)],
                "embedder": ["emb"],
                "retriever": [{"hybrid": {"top_k": 3, "fusion": {"weighted": {"dense_weight": 0.25}}}}],
                "generator": [{"compact": {"model": "gpt"}}],
            },
            "evaluate": {"metrics": [{"recall": {"k": 2}}, "mrr"]},
        }
    )
    assert trials(by_class) == trials(by_table) and len(trials(by_class)) == 2


def test_every_stage_has_a_keyword_and_a_step_or_a_list_of_steps_is_one_value():
    experiment = reverie.Experiment(
        tables(),
        enrich=["none", reverie.enrich.Heading(title=False)],
        index=["flat", reverie.vector_indexes.Hnsw(ef=64)],
        query=reverie.query.Filter(where={"year": {"ge": 2020}}),
        refine=["none", ["dedupe", reverie.refine.Neighbours(chunks=2)]],
    )
    found = experiment.trials()
    assert set(found["enrich"]) == {"none", "heading"}
    assert set(found["refine"]) == {"none", "dedupe+neighbours"}
    assert set(found["query"]) == {"filter"}
    with pytest.raises(ValueError, match="dedupes"):
        reverie.Experiment(tables(), refine=[["dedupes"]])


def test_prompts_are_an_axis_and_files_are_read_beside_the_experiment(tmp_path):
    (tmp_path / "short.toml").write_text('system = "Be short."\nuser = "{sources} {question}"\n')
    gpt = {"chat": {"openai": {"model": "gpt", "base_url": "http://127.0.0.1:1/v1"}}}
    told = {"base": tmp_path, "models": {"gpt": gpt}, "generator": reverie.generator.Compact(model="gpt")}
    experiment = reverie.Experiment(tables(), prompt=["brief", "short.toml"], **told)
    assert set(experiment.trials()["prompt"]) == {"brief", "short.toml"}
    (tmp_path / "wrong.toml").write_text('system = "Be short."\nuser = "{sources} {qestion} {question}"\n')
    with pytest.raises(ValueError, match=r"wrong.toml: line 2: \{qestion\} stands for nothing"):
        reverie.Experiment(tables(), prompt=["wrong.toml"], **told)


def test_keywords_take_the_place_of_what_a_dictionary_says():
    experiment = reverie.Experiment(tables(), chunker=["token", "markdown"], name="other")
    assert experiment.name == "other" and experiment.trials()["chunker"] == ["token", "markdown"]
    with pytest.raises(ValueError, match="chunker: cannot be combined with an experiment file"):
        reverie.Experiment("experiment.toml", chunker=["token"])


def test_mistakes_in_a_dictionary_name_their_keys(small, provider):
    wrong = settings(small, provider.url, evaluate={"metrics": ["recal"]})
    wrong["space"]["retriever"] = [{"bm25": {"top": 1}}, {"bm25": {"top_k": [3, 5]}}]
    wrong["space"]["chunker"] = [reverie.chunker.Sentence(chunk_size="large")]
    with pytest.raises(ValueError) as told:
        reverie.Experiment(wrong)
    lines = str(told.value).splitlines()
    starts = [line.partition(": ")[0] for line in lines]
    assert set(starts) >= {
        "space.chunker[0].sentence.chunk_size",
        "space.retriever[0].bm25.top",
        "space.retriever[1].bm25.top_k",
        "evaluate.metrics[0]",
    }, lines
    assert "to compare several" in next(line for line in lines if "top_k" in line.partition(": ")[0])
    assert not any(line.startswith("line ") for line in lines)
    for value, place in [(object(), "name"), (lambda: 1, "name"), (float("nan"), "name"), (1 << 70, "name")]:
        with pytest.raises((TypeError, ValueError), match=f"{place}: "):
            reverie.Experiment(tables(name=value))
    endless: dict = {}
    endless["space"] = endless
    with pytest.raises(ValueError, match="do they hold themselves"):
        reverie.Experiment(endless)


def test_numbers_of_numpy_are_numbers():
    numpy = pytest.importorskip("numpy")
    sizes = [reverie.chunker.Sentence(chunk_size=n, chunk_overlap=numpy.int32(0)) for n in numpy.array([128, 256])]
    rows = trials(reverie.Experiment(tables(), chunker=sizes))
    assert [trial["chunker"]["sentence"]["chunk_size"] for trial in rows] == [128, 256]
    merged = reverie.chunker.Hierarchical(chunk_sizes=numpy.array([64, 16]), merge_threshold=numpy.float32(0.5))
    assert json.loads(_core.settings(merged))["hierarchical"]["chunk_sizes"] == [64, 16]


def test_what_makes_components_of_functions_has_the_classes_too():
    for kind in KINDS:
        of = getattr(reverie, kind)
        module = getattr(reverie, f"{kind}s")
        found = {name: value for name, value in vars(module).items() if inspect.isclass(value)}
        classes = {name: value for name, value in found.items() if value.__module__ == module.__name__}
        components = {name for name, value in classes.items() if issubclass(value, Component) and hasattr(of, name)}
        assert components and all(getattr(of, name) is classes[name] for name in components)
        assert all(value.__doc__ for value in classes.values())

    @reverie.chunker
    def whole(text):
        return [text]

    assert whole("a") == ["a"] and whole.setting()["python"]["function"] == "whole"
    assert "function" in inspect.signature(reverie.metric).parameters


def test_decorators_have_the_defaults_of_the_components():
    for kind, module in [(each, getattr(reverie, f"{each}s")) for each in KINDS]:
        parameters = inspect.signature(getattr(reverie, kind)).parameters
        python = {field: value for field, value in vars(module.Python).items() if not field.startswith("_")}
        if kind == "generator":
            python.update(vars(module.Compact))
        for name, parameter in parameters.items():
            if name in python and name not in ("function", "name") and parameter.default is not parameter.empty:
                # None stands for the setting of the model, where there is one.
                default = python[name] if parameter.default is None else parameter.default
                assert default == python[name], (kind, name)

    def asked(question: str, passages: list) -> str:
        return question

    prompted, compact = reverie.generator(model="gpt")(asked).setting()["python"]["settings"], vars(reverie.generators.Compact)
    assert {name: prompted[name] for name in ("max_tokens", "temperature", "seed")} == {
        name: compact[name] for name in ("max_tokens", "temperature", "seed")
    }


def test_every_class_is_a_component_with_the_defaults_of_the_source():
    for name, made in vars(reverie.chunkers.Chunkers).items():
        if inspect.isclass(made) and name not in ("Python", "Semantic", "None_"):
            (explicit,), (plain,) = (
                trials(reverie.Experiment(tables(), chunker=[each]))
                for each in ({made._name: {**vars(made())}}, made())
            )
            assert explicit["chunker"] == plain["chunker"], name


def test_experiments_and_results_can_be_pickled(small, provider):
    experiment = reverie.Experiment(settings(small, provider.url))
    again = pickle.loads(pickle.dumps(experiment))
    assert trials(again) == trials(experiment)
    results = again.run()
    copied = pickle.loads(pickle.dumps(results))
    assert copied.data == results.data and copied.compare("t01", "t02").rows() == results.compare("t01", "t02").rows()
