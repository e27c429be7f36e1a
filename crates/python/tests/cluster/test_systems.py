"""Systems that are not ours, asked by workers of a cluster: the same trials as on one machine, and nothing asked twice."""

from __future__ import annotations

from conftest import Run, differences, without_times

SYSTEMS = """
[systems.proxied]
openai = {{ base_url = "{url}/v1", model = "gpt" }}
[systems.own]
python = {{ file = "rag.py", function = "answer" }}
parameters = {{ words = [3, 6] }}
"""

FUNCTION = '''
def answer(question, words):
    text = " ".join(question.split()[:words])
    return {"answer": text, "passages": [{"text": text}]}
'''


def test_systems_are_the_same_trials_on_a_cluster_and_nothing_is_asked_twice(ray_cluster, workspace, provider):
    (workspace.folder / "rag.py").write_text(FUNCTION)
    systems = SYSTEMS.format(url=provider.url)
    here = Run("run", "-f", workspace.experiment("local-systems", provider.url, rest=systems), "--json").succeeds()
    experiment = workspace.experiment("remote-systems", provider.url, rest=systems)
    there = Run("run", "-f", experiment, "--json", "--engine", "ray", "--address", ray_cluster.address).succeeds()
    assert [found["trial"]["labels"].get("system") for found in there["trials"]].count("own") == 2
    for results in (here, there):
        # The chunks of a cluster are on other machines, so warnings that need them are not looked for there.
        results.pop("looked_for")
        results["warnings"] = [each for each in results["warnings"] if each["code"] in ("unanchored-passages", "unmatched-answers")]
    assert differences(without_times(here), without_times(there)) == []
    asked = provider.statistics()["requests"]
    again = Run("run", "-f", experiment, "--json").succeeds()
    assert again["executed"] == 0 and provider.statistics()["requests"] == asked
