"""Reverie for Python.

- `reverie.executors`: many calls at once, with retries and adaptive concurrency; takes the place of
  `phoenix.evals.executors`.
- `reverie.exceptions`: what a call raises to say whether another attempt is worthwhile.

Importing this module imports neither of them.
"""

__version__ = "0.1.0"
