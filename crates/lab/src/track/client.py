# Shows one run by the Python package of a tracker, for the program that started this interpreter. It reads calls as
# lines of JSON from its standard input, and answers each with a line. `show` of the tracker is given each call: `run`
# (who the run is, and its settings), `rows` (steps with values) and, once the run has ended, `end`. What the package
# prints goes to standard error, so that it cannot pass for an answer.
import sys

# A file or folder in the working folder must not pass for a module that is imported here.
sys.path[:] = [folder for folder in sys.path if folder]

import json
import os


def answer(open_tracker, may_pass):
    """Answers calls until the input closes. `may_pass` says whether another try soon may help after an exception."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    tracker = None
    for line in sys.stdin.buffer:
        call = json.loads(line)
        reply = {"call": call.pop("call")}
        try:
            if tracker is None:
                tracker = open_tracker()
            reply["notes"] = tracker.show(**call) or []
        except BaseException as error:
            reply["error"] = f"{type(error).__name__}: {error}".rstrip(": ")
            reply["is_away"] = isinstance(error, OSError) or may_pass(error)
            if isinstance(error, ModuleNotFoundError):
                reply["missing"] = error.name
        answers.write(json.dumps(reply) + "\n")
        answers.flush()
