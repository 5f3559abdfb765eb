"""The process that compiles the chip: ``main([folder, name, headers, *sources, "--", *flags])``.

It is separate from the user's process, because torch's builder changes the environment, imports setuptools and loads
its result.
"""

from __future__ import annotations

import os
import signal
import threading

from torch.utils import cpp_extension


def main(arguments: list[str]) -> None:
    """Compile the extension ``name`` in ``folder``, and load it as a first test."""
    folder, name, headers, *rest = arguments
    split = rest.index("--")
    # The parent's end of stdin closes at the parent's end, even by SIGKILL, and then the compilers end too.
    threading.Thread(target=_end_with_the_parent, daemon=True).start()
    # torch's own lock file is in the folder and survives a killed build: each build has its own folder.
    cpp_extension.load(
        name,
        rest[:split],
        extra_cflags=rest[split + 1 :],
        extra_include_paths=[headers],
        build_directory=folder,
        verbose=True,
    )


def _end_with_the_parent() -> None:
    os.read(0, 1)
    # SIGTERM, because ninja passes it on to the compilers, which it runs in their own process groups.
    os.killpg(0, signal.SIGTERM)
