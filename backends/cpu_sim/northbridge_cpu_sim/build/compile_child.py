"""The process that compiles the chip: ``main([folder, name, headers, *sources, "--", *flags])``.

Apart from the user's process, because torch's builder works through the environment, imports
setuptools and loads what it has built.
"""

from __future__ import annotations

import os
import signal
import threading

from torch.utils import cpp_extension


def main(arguments: list[str]) -> None:
    """Compile and, as a first test, load the extension ``name`` in ``folder``."""
    folder, name, headers, *rest = arguments
    split = rest.index("--")
    # The parent's end of stdin closes when it ends, however it ends: its compilers end with it.
    threading.Thread(target=_end_with_the_parent, daemon=True).start()
    # torch's own lock file lies in the folder and outlives a killed build: no two builds share one.
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
    # SIGTERM, because ninja passes it on to the compilers, which it runs in groups of their own.
    os.killpg(0, signal.SIGTERM)
