"""The files of a corpus as a source of Ray Data: listed once by path, read in blocks on the cluster.

Not `ray.data.read_binary_files`: that ends at the first file that cannot be read, asks for each file's size, and
makes blocks of equally many files, however large. Here such a file is a row that says why, sizes come from the
listing, and blocks hold about equally many bytes, in the order of the paths.
"""

from __future__ import annotations

import fnmatch
import json
import os
import posixpath
from dataclasses import dataclass
from typing import Any, Callable, Iterable, Iterator
from urllib.parse import urlsplit

import pyarrow as pa
from pyarrow import fs
from ray.data import Datasource, ReadTask
from ray.data.block import BlockMetadata

# What the loader takes when it is not told which: `rag::load`.
EXTENSIONS = {
    "pdf", "epub", "html", "htm", "xhtml", "md", "markdown", "docx", "txt", "text", "rst", "adoc", "org",
}  # fmt: skip
# As the engines cut a corpus into tasks.
FILES_PER_BLOCK = 64
BYTES_PER_BLOCK = 1 << 20
FILE_BYTES = 256 << 20

SCHEMA = pa.schema([("path", pa.string()), ("bytes", pa.binary()), ("failure", pa.string())])


@dataclass(frozen=True)
class File:
    """A file: its name in the corpus, where it is, its size, and why it is not read (JSON of the reason), if so."""

    path: str
    location: str
    size: int
    failure: str | None = None


def open_filesystem(address: str) -> tuple[fs.FileSystem, str]:
    """The file system of a folder or URL, and the path in it. S3 as the `AWS_…` variables say."""
    if address.startswith("s3://"):
        parts = urlsplit(address)
        options: dict[str, Any] = {}
        endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or os.environ.get("AWS_ENDPOINT")
        if endpoint:
            options = {"endpoint_override": endpoint, "scheme": urlsplit(endpoint).scheme or "https"}
        region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
        if region:
            options["region"] = region
        return fs.S3FileSystem(**options), (parts.netloc + parts.path).rstrip("/")
    if "://" in address:
        return fs.FileSystem.from_uri(address)
    return fs.LocalFileSystem(), os.path.abspath(address)


def survey(source: str, include: Iterable[str], exclude: Iterable[str]) -> list[File]:
    """The files of a corpus by path; names that begin with a dot are not looked at."""
    filesystem, root = open_filesystem(source)
    include, exclude = list(include), list(exclude)
    info = filesystem.get_file_info(root)
    if info.type == fs.FileType.File:
        return [File(posixpath.basename(root), root, info.size)]
    if info.type == fs.FileType.NotFound:
        raise ValueError(f"{source}: there is no such file or folder")
    found = []
    real_root = os.path.realpath(root) if isinstance(filesystem, fs.LocalFileSystem) else None
    for info in filesystem.get_file_info(fs.FileSelector(root, recursive=True)):
        path = posixpath.relpath(info.path, root)
        hidden = any(part.startswith(".") for part in path.split("/"))
        if info.type == fs.FileType.File and not hidden and _taken(path, include, exclude):
            found.append(File(path, info.path, info.size, _outside(info.path, real_root)))
    if not found:
        wanted = ", ".join(include) or ", ".join(f".{each}" for each in sorted(EXTENSIONS))
        raise ValueError(f"{source}: none of its files belongs to the corpus; wanted: {wanted}")
    return sorted(found, key=lambda file: file.path)


def _outside(location: str, real_root: str | None) -> str | None:
    """Why a file is refused that a link brings in from elsewhere; as `[corpus]` does by default."""
    if real_root is None:
        return None
    target = os.path.realpath(location)
    if os.path.commonpath([target, real_root]) == real_root:
        return None
    return json.dumps({"outside_link": {"target": target}})


def _taken(path: str, include: list[str], exclude: list[str]) -> bool:
    stem, _, extension = posixpath.basename(path).rpartition(".")
    wanted = any(_matches(path, pattern) for pattern in include) if include else bool(stem) and extension.lower() in EXTENSIONS
    return wanted and not any(_matches(path, pattern) for pattern in exclude)


def _matches(path: str, pattern: str) -> bool:
    """As in `[corpus]`: a pattern without `/` matches names in any folder, `*` stays within one, `**` does not."""
    path, pattern = path.lower(), pattern.lower().removeprefix("./")
    if pattern.endswith("/"):
        pattern += "**"
    if "/" not in pattern:
        return fnmatch.fnmatchcase(posixpath.basename(path), pattern)
    return _match_parts(path.split("/"), pattern.split("/"))


def _match_parts(parts: list[str], patterns: list[str]) -> bool:
    if not patterns:
        return not parts
    if patterns[0] == "**":
        return any(_match_parts(parts[skipped:], patterns[1:]) for skipped in range(len(parts) + 1))
    return bool(parts) and fnmatch.fnmatchcase(parts[0], patterns[0]) and _match_parts(parts[1:], patterns[1:])


def blocks(files: list[File]) -> list[list[File]]:
    """The files in blocks that are read by one task each."""
    made: list[list[File]] = []
    size = 0
    for file in files:
        if not made or len(made[-1]) >= FILES_PER_BLOCK or size + file.size > BYTES_PER_BLOCK:
            made.append([])
            size = 0
        made[-1].append(file)
        size += file.size
    return made


class CorpusDatasource(Datasource):
    """Rows of `path`, `bytes`, and `failure` (JSON of the reason) where a file was not read."""

    def __init__(self, source: str, files: list[File], limits: dict[str, Any], settle: Callable[[], None]) -> None:
        super().__init__()
        self._source, self._blocks, self._settle = source, blocks(files), settle
        self._limit = int(limits.get("file_bytes", FILE_BYTES))

    def __len__(self) -> int:
        return len(self._blocks)

    def get_name(self) -> str:
        """The operator's name is `Read` and this."""
        return "Binary"

    def estimate_inmemory_data_size(self) -> int | None:
        """Bytes of all files."""
        return sum(file.size for block in self._blocks for file in block)

    def get_read_tasks(self, parallelism: int, per_task_row_limit: int | None = None, data_context: Any = None) -> list[ReadTask]:
        """A task for each block: the cut must not depend on the cluster."""
        made = []
        for block in self._blocks:
            metadata = BlockMetadata(
                num_rows=len(block), size_bytes=sum(file.size for file in block), exec_stats=None,
                input_files=tuple(file.location for file in block),
            )  # fmt: skip
            made.append(ReadTask(_reader(self._settle, self._source, block, self._limit), metadata, per_task_row_limit=per_task_row_limit))
        return made


def _reader(settle: Callable[[], None], source: str, block: list[File], limit: int) -> Any:
    def read() -> Iterator[pa.Table]:
        settle()
        filesystem, _ = open_filesystem(source)
        rows = [_row(filesystem, file, limit) for file in block]
        yield pa.Table.from_pylist(rows, schema=SCHEMA)

    return read


def _row(filesystem: fs.FileSystem, file: File, limit: int) -> dict[str, Any]:
    if file.failure is not None:
        return {"path": file.path, "bytes": b"", "failure": file.failure}
    if file.size > limit:
        reason = {"over_limit": f"{file.size} bytes, and at most {limit} are read"}
        return {"path": file.path, "bytes": b"", "failure": json.dumps(reason)}
    try:
        with filesystem.open_input_stream(file.location, compression=None) as stream:
            return {"path": file.path, "bytes": stream.read(), "failure": None}
    except OSError as error:
        return {"path": file.path, "bytes": b"", "failure": json.dumps({"unreadable": str(error)})}
