"""Reads a file in chunks for an upload, so that it need not fit into memory."""

from __future__ import annotations

import asyncio
import io
import mimetypes
import os
import shutil
import tempfile
from pathlib import Path
from typing import IO, AsyncIterator, Iterator, Self

CHUNK_BYTES = 256 * 1024


class UploadSource:
    """File to upload, with its name, type and size. Leaving the ``with`` block closes the file only if this class
    opened it."""

    def __init__(
        self,
        file: Path | str | bytes | IO[bytes],
        filename: str | None,
        content_type: str | None,
    ) -> None:
        self._owned_file: IO[bytes] | None = None
        if isinstance(file, bytes):
            self._file: IO[bytes] = io.BytesIO(file)
        elif isinstance(file, (str, Path)):
            self._file = self._owned_file = open(file, "rb")
            filename = filename or Path(file).name
        elif file.seekable():
            self._file = file
            filename = filename or _file_name(file)
        else:
            # A stream is copied to disk, because the upload needs its size, and a retry reads it again.
            self._file = self._owned_file = tempfile.TemporaryFile()
            shutil.copyfileobj(file, self._file)
            self._file.seek(0)
            filename = filename or _file_name(file)
        self._start = self._file.tell()
        self.size = self._file.seek(0, os.SEEK_END) - self._start
        self.filename = filename
        self.content_type = content_type or (mimetypes.guess_type(filename)[0] if filename else None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._owned_file is not None:
            self._owned_file.close()

    def chunks(self) -> Iterator[bytes]:
        """Yields the bytes from the start of the file."""
        self._file.seek(self._start)
        while chunk := self._file.read(CHUNK_BYTES):
            yield chunk

    async def async_chunks(self) -> AsyncIterator[bytes]:
        """Yields the bytes from the start of the file. Reads them in a thread, so that the event loop is not
        blocked."""
        self._file.seek(self._start)
        while chunk := await asyncio.to_thread(self._file.read, CHUNK_BYTES):
            yield chunk


def _file_name(file: IO[bytes]) -> str | None:
    name = getattr(file, "name", None)
    return Path(name).name if isinstance(name, str) else None
