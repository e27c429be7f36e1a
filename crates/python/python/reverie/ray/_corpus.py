"""The files of a corpus as a source of Ray Data: listed once by path, read in blocks on the cluster.

Not `ray.data.read_binary_files`: that ends at the first file that cannot be read, asks for each file's size, and
makes blocks of equally many files, however large. Here a file that cannot be read is a row that says why. The engine of
an experiment uses the same Rust code to choose the files of the corpus, to divide them into blocks and to read them.
"""

from __future__ import annotations

from typing import Any, Callable, Iterator, Sequence

import pyarrow as pa
from ray.data import Datasource, ReadTask
from ray.data.block import BlockMetadata

from reverie import _core


class CorpusDatasource(Datasource):
    """Rows of `path`, `bytes`, `failure` where a file was not read, and what says whether a later start must read it again."""

    def __init__(self, blocks: Sequence[_core.Block], set_missing: Callable[[], None]) -> None:
        super().__init__()
        self._blocks, self._set_missing = list(blocks), set_missing

    def __len__(self) -> int:
        return len(self._blocks)

    def get_name(self) -> str:
        """The operator's name is `Read` and this."""
        return "Binary"

    def estimate_inmemory_data_size(self) -> int | None:
        """Bytes of all files."""
        return sum(block.bytes for block in self._blocks)

    def get_read_tasks(self, parallelism: int, per_task_row_limit: int | None = None, data_context: Any = None) -> list[ReadTask]:
        """A task for each block: the blocks must not depend on the cluster."""
        made = []
        for block in self._blocks:
            metadata = BlockMetadata(num_rows=len(block), size_bytes=block.bytes, exec_stats=None, input_files=tuple(block.paths))
            made.append(ReadTask(_reader(self._set_missing, block), metadata, per_task_row_limit=per_task_row_limit))
        return made


def _reader(set_missing: Callable[[], None], block: _core.Block) -> Any:
    def read() -> Iterator[pa.Table]:
        set_missing()
        yield pa.Table.from_batches([block.read()])

    return read
