"""What the tests share."""

import importlib.util

import pytest


@pytest.fixture
def phoenix():
    """Phoenix's executors, where they are installed."""
    if importlib.util.find_spec("phoenix") is None:
        pytest.skip("arize-phoenix-evals is not installed")
    from phoenix.evals import executors

    return executors
