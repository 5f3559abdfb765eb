"""Reading of files from outside, only if they are regular: a device has no end, and a pipe may have no beginning."""

from __future__ import annotations

import errno
import stat
from pathlib import Path

MOST_BYTES = 1 << 26


def read_file(path: Path, most: int = MOST_BYTES) -> bytes:
    """Read the file. Raises ``OSError`` if it is not a regular file, or has more than ``most`` bytes."""
    about = path.stat()
    if stat.S_ISDIR(about.st_mode):
        raise IsADirectoryError(errno.EISDIR, "it is a folder", str(path))
    if not stat.S_ISREG(about.st_mode):
        raise OSError(errno.EINVAL, "it is a device or a pipe", str(path))
    if about.st_size > most:
        raise too_large(path, most)
    return path.read_bytes()


def too_large(path: Path, most: int) -> OSError:
    """Return the error for a file with more than ``most`` bytes."""
    return OSError(errno.EFBIG, f"it has more than {most >> 20} MiB", str(path))
