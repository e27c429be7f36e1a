"""Secrets on their way to replicas of Ray Serve: a replica gets them, and nothing shows them. Ray is not started."""

from __future__ import annotations

import copy
import json
import logging
import os
import pickle
import pprint
import traceback

import pytest
from ray import cloudpickle

pytest.importorskip("ray.serve")
from ray.data._internal.metadata_exporter import sanitize_for_struct  # noqa: E402
from ray.serve.deployment import Application, Deployment, deployment_to_schema  # noqa: E402

import reverie.ray.serve  # noqa: E402
from reverie.ray._environment import Secrets, driver_environment  # noqa: E402

SECRETS = {"AWS_SECRET_ACCESS_KEY": "open-sesame", "OPENAI_API_KEY": "sk-open-sesame-too"}
KINDS = {"app": reverie.ray.serve.app, "graph": reverie.ray.serve.graph}


@pytest.fixture
def environment(monkeypatch):
    """The variables of this process, without secrets; they are as before after the test."""
    for name in SECRETS:
        # What is set now is removed in the end, also if it comes from a replica.
        monkeypatch.setenv(name, "")
        del os.environ[name]
    return os.environ


@pytest.fixture
def secrets():
    """The variables of a replica."""
    return Secrets.of(SECRETS)


def find_secrets(text: str) -> list[str]:
    """The secrets that a text shows, by their names."""
    return [name for name, value in SECRETS.items() if value in text]


def test_no_text_made_of_secrets_shows_their_values(secrets, caplog):
    logging.getLogger(__name__).warning("a replica starts with %s and %r", secrets, secrets)
    copies = [secrets, copy.copy(secrets), copy.deepcopy(secrets)]
    copies += [module.loads(module.dumps(secrets)) for module in (pickle, cloudpickle)]
    for each in copies:
        for text in (
            repr(each), str(each), format(each), f"{each} {each!r} {each!s} {each!a}", "%s %r" % (each, each),
            pprint.pformat({"environment": each}), json.dumps([each], default=str), repr((each, {"environment": each})),
            str(RuntimeError("a replica failed", each)), repr(ValueError(each)),
        ):  # fmt: skip
            assert find_secrets(text) == [], text
            assert "2 variables" in text, text
    assert "2 variables" in caplog.text and find_secrets(caplog.text) == []
    assert find_secrets(repr(SECRETS)) == list(SECRETS), "secrets that are shown are found"


def test_a_replica_has_the_secrets_in_its_environment(secrets, environment):
    cloudpickle.loads(cloudpickle.dumps(secrets)).set()
    assert {name: environment.get(name) for name in SECRETS} == SECRETS
    assert Secrets.of({}) is Secrets.of(None) is None


def test_the_traceback_of_a_replica_that_fails_shows_no_secrets(secrets, environment, tmp_path):
    with pytest.raises(RuntimeError, match="holds no bundle") as raised:
        reverie.ray.serve.Encoder.func_or_class(str(tmp_path), secrets)
    assert environment["OPENAI_API_KEY"] == SECRETS["OPENAI_API_KEY"], "it had the secrets"
    shown = traceback.TracebackException.from_exception(raised.value, capture_locals=True)
    # The first frame is this test's, which knows the secrets itself.
    frames = traceback.StackSummary.from_list(shown.stack[1:]).format()
    text = "".join([*frames, *shown.format_exception_only()])
    assert "environment = <2 variables>" in text and find_secrets(text) == [], text


def test_no_text_of_an_operator_that_reads_or_embeds_shows_secrets(environment):
    environment.update(SECRETS)
    around = driver_environment(["OPENAI_API_KEY"])
    assert SECRETS.items() <= around._variables.items(), "a worker gets them"
    shown = sanitize_for_struct({"arguments": (around, 1), "set_missing": around.set_missing})
    assert find_secrets(repr([around, around.set_missing, shown])) == []
    assert find_secrets(repr(sanitize_for_struct({"arguments": (SECRETS, 1)}))) == list(SECRETS)


def test_a_worker_keeps_the_variables_that_it_has(secrets, environment):
    environment["OPENAI_API_KEY"] = "its-own"
    secrets.set_missing()
    assert environment["OPENAI_API_KEY"] == "its-own"
    assert environment["AWS_SECRET_ACCESS_KEY"] == SECRETS["AWS_SECRET_ACCESS_KEY"]


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_that_ray_shows_of_a_deployment_has_secrets(kind, tmp_path, caplog):
    deployments = list_deployments(KINDS[kind](str(tmp_path), environment=SECRETS))
    assert len(deployments) == (1 if kind == "app" else 7)
    for deployment in deployments:
        held = [each for each in deployment.init_args if isinstance(each, Secrets)]
        assert [each._variables for each in held] == [SECRETS], "each replica gets them"
        assert find_secrets(describe(deployment)) == [], deployment.name
        # As variables of Ray they would be shown.
        options = {**deployment.ray_actor_options, "runtime_env": {"env_vars": SECRETS}}
        assert find_secrets(describe(deployment.options(ray_actor_options=options))) == list(SECRETS)
    assert find_secrets(caplog.text) == []


def describe(deployment: Deployment) -> str:
    """What Ray's dashboard, its API, its command line and its logs show of a deployment."""
    replica = deployment._replica_config
    # The arguments in pickled form go to the replica alone.
    shown = {name: value for name, value in replica.to_dict().items() if "serialized" not in name}
    parts = [deployment_to_schema(deployment).model_dump_json(warnings=False), repr(deployment), str(deployment)]
    options = (replica.ray_actor_options, deployment._deployment_config, deployment.user_config)
    return "\n".join([*parts, *map(repr, (shown, *options, deployment.init_args, deployment.init_kwargs))])


def list_deployments(application: Application) -> list[Deployment]:
    """The deployments of an application, each once."""
    found: dict[int, Deployment] = {}

    def visit(value) -> None:
        if isinstance(value, Application):
            deployment = value._bound_deployment
            if id(deployment) not in found:
                found[id(deployment)] = deployment
                visit([*deployment.init_args, *deployment.init_kwargs.values()])
        elif isinstance(value, (list, tuple, dict)):
            for each in value.values() if isinstance(value, dict) else value:
                visit(each)

    visit(application)
    return list(found.values())
