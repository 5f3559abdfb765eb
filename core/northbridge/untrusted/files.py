"""Reading of files from outside, only if they are regular: a device has no end, and a pipe may have no beginning."""

from __future__ import annotations

import errno
import stat
from pathlib import Path

MOST_BYTES = 1 << 26


def read_file(path: Path) -> bytes:
    """Read the file. Raises ``OSError`` if it is not a regular file, or is larger than any of ours."""
    about = path.stat()
    if stat.S_ISDIR(about.st_mode):
        raise IsADirectoryError(errno.EISDIR, "it is a folder", str(path))
    if not stat.S_ISREG(about.st_mode):
        raise OSError(errno.EINVAL, "it is a device or a pipe", str(path))
    if about.st_size > MOST_BYTES:
        raise OSError(errno.EFBIG, f"it has more than {MOST_BYTES >> 20} MiB", str(path))
    return path.read_bytes()
