"""The schema that editors take, held against experiment files by another program."""

import copy
import json
import subprocess
import sys
import tomllib
from pathlib import Path

import jsonschema
import pytest

ROOT = Path(__file__).resolve().parents[3]


def printed(*arguments) -> str:
    done = subprocess.run([sys.executable, "-m", "reverie", *arguments], check=True, capture_output=True, text=True)
    return done.stdout


@pytest.fixture(scope="module")
def validator():
    schema = json.loads(printed("schema"))
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@pytest.fixture(scope="module")
def experiment() -> dict:
    """An experiment with one table of the space."""
    file = tomllib.loads((ROOT / "examples" / "debian-manuals" / "experiment.toml").read_text())
    return {**file, "space": file["space"][0]}


def test_the_examples_and_what_init_writes_keep_to_the_schema(validator, tmp_path):
    (tmp_path / "a.txt").write_text("A mill.")
    printed("init", tmp_path, "--output", tmp_path / "experiment.toml", "--quiet")
    validator.validate(tomllib.loads((ROOT / "examples" / "debian-manuals" / "experiment.toml").read_text()))
    validator.validate(tomllib.loads((tmp_path / "experiment.toml").read_text()))


def test_every_component_keeps_to_the_schema_alone_and_with_its_defaults(validator, experiment):
    components = json.loads(printed("components", "--json"))
    for component in components:
        kind, name = component["kind"], component["name"]
        if kind in ("embedder", "prompt"):
            continue
        settings = {}
        for setting in component["settings"]:
            # Settings within settings are shown with a point.
            if "." in setting["name"]:
                continue
            needed = {"model": "some", "file": "some", "criterion": "some", "levels": ["a", "b"], "fields": {"a": "text"}}
            if setting["default"] is not None:
                settings[setting["name"]] = setting["default"]
            elif setting["name"] in needed:
                settings[setting["name"]] = needed[setting["name"]]
        changed = copy.deepcopy(experiment)
        values = [name, {name: settings}] if component["settings"] else [name]
        where, key = (changed["evaluate"], "metrics") if kind == "metric" else (changed["space"], kind)
        for value in values:
            where[key] = [value]
            errors = [error for error in validator.iter_errors(changed) if "is a required property" not in str(error)]
            assert not errors, f"{kind} {value}: {errors[0].message}"


@pytest.mark.parametrize(
    "change",
    [
        lambda file: file.update(copus={}),
        lambda file: file["corpus"].update(sorce="docs"),
        lambda file: file["space"].update(chunker=["sentense"]),
        lambda file: file["space"].update(chunker=[{"sentence": {"chunk_sise": 9}}]),
        lambda file: file["space"].update(chunker=[{"sentence": {"chunk_size": "nine"}}]),
        lambda file: file["evaluate"].update(metrics=["recal"]),
        lambda file: file["evaluate"].update(budget={"dollars": 3}),
        lambda file: file.update(search={"race": {"shares": 0.5}}),
        lambda file: file.update(models={"m": {"chat": {"openai": {"modle": "m"}}}}),
        lambda file: file.pop("space"),
    ],
)
def test_what_reverie_refuses_is_marked_in_an_editor(validator, experiment, change):
    changed = copy.deepcopy(experiment)
    change(changed)
    assert not validator.is_valid(changed)
