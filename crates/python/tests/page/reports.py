"""Reports for the tests of the page, and a page that is open in a browser."""

from __future__ import annotations

import json

HOSTILE = "</script><script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\"> <b>bold</b>"


class Opened:
    """A page, and everything that went wrong or was asked for while it was open."""

    def __init__(self, page) -> None:
        self.page = page
        self.errors: list[str] = []
        self.requests: list[str] = []
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", lambda said: self.errors.append(said.text) if said.type == "error" else None)
        page.on("request", lambda request: self.requests.append(request.url))

    def go(self, path, address: str = "") -> Opened:
        """Opens a file, with what stands behind the `#`. A page that is open is opened anew."""
        self.page.goto("about:blank")
        self.page.goto(f"file://{path}#{address}")
        self.settle()
        return self

    def settle(self) -> None:
        """Waits until nothing is being loaded."""
        # What a click begins to load shows after the next pictures.
        self.page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 30))))")
        self.page.wait_for_function("() => !document.querySelector('[aria-busy]')")

    def text(self, selector: str) -> str:
        return self.page.locator(selector).first.inner_text()

    def texts(self, selector: str) -> list[str]:
        return self.page.locator(selector).all_inner_texts()


def changed(data: dict) -> dict:
    """A copy with answers, verdicts, a reranker and hostile text, as other experiments have them."""
    data = json.loads(json.dumps(data))
    data["experiment"] = f"mills {HOSTILE}"
    data["winner"] = {"leads": data["trials"][0]["trial"]["id"]}
    data["metrics"].append({"name": "faithfulness", "judged": True, "objective": False, "range": [0.0, 1.0], "higher_is_better": True})
    first = data["questions"][0]
    first["question"], first["tags"] = f"Which mill? {HOSTILE}", [HOSTILE]
    for place, trial in enumerate(data["trials"]):
        trial["latency_p50"], trial["latency_p95"], trial["cost_usd"] = 3.0 - 0.3 * place, 4.0, 0.0
        trial["tokens"] = 100.0 + 10 * place
        used = {"calls": 1, "prompt_tokens": 90 + 10 * place, "completion_tokens": 10, "cost_usd": 0.0, "seconds": 0.5}
        trial["usage"]["questions"] = {"m": {"model": "m", **used}}
        trial["group"], trial["tied"] = (1, place > 0) if place < 3 else (2, False)
        for number, question in enumerate(trial["questions"]):
            usage = {"prompt_tokens": 9, "cached_tokens": 0, "completion_tokens": 3}
            question["answer"] = {
                "text": f"In 17{number:02} [1]. {HOSTILE}", "citations": [1], "dropped_passages": 0, "calls": 1,
                "usage": usage, "seconds": 0.5,
            }
            if number == 5:
                question["answer"], question["error"] = None, f"the model is down {HOSTILE}"
            verdicts = [
                {"number": 1, "text": f"It was built. {HOSTILE}", "verdict": True, "probability": 0.75, "reason": "so it says"},
                {"number": 2, "text": "It grinds rye.", "verdict": False, "probability": None, "reason": None},
                {"number": 3, "text": "It is red.", "verdict": None, "probability": None, "reason": None},
            ]
            calls = [{"purpose": "verdict", "prompt": "Is it so?", "reply": "Yes", "judge": "qwen"}]
            detail = {"statements": verdicts, "agreement": 0.75, "transcript": calls, "__proto__": {"hidden": HOSTILE}}
            question["scores"]["faithfulness"] = {"score": {"value": 0.5}, "detail": detail}
    return data
