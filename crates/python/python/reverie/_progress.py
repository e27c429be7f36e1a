"""The progress bar and the messages of an executor's run. Both go to the standard error stream."""

from __future__ import annotations

import logging
import sys
from typing import Any

logger = logging.getLogger("reverie")


def progress_bar(total: int | None, bar_format: str | None) -> Any | None:
    """A tqdm bar, if a format is given. Nothing imports tqdm otherwise."""
    if bar_format is None:
        return None
    try:
        from tqdm.auto import tqdm
    except ImportError:
        logger.warning("There is no progress bar because tqdm is not installed: `pip install tqdm`.")
        return None
    return tqdm(total=total, bar_format=bar_format)


def say(text: str) -> None:
    """Writes a line, without tearing a bar that may be there."""
    module = sys.modules.get("tqdm")
    if module is not None and hasattr(module, "tqdm"):
        module.tqdm.write(text, file=sys.stderr)
    else:
        print(text, file=sys.stderr)
