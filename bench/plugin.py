"""Plugins that are installed for a measurement: metadata in a folder on the path is all that installed means."""

from __future__ import annotations

from pathlib import Path

_README = "A README of the usual length, which is part of the metadata.\n" * 100


def announce(site: Path, name: str, module: str) -> Path:
    """Install a distribution in ``site`` that announces the backend ``name``, to be found in ``module``.

    Returns the folder of its metadata.
    """
    folder = site / f"northbridge_{name}-1.0.dist-info"
    folder.mkdir()
    header = f"Metadata-Version: 2.4\nName: northbridge-{name}\nVersion: 1.0\nDescription-Content-Type: text/markdown\n"
    (folder / "METADATA").write_text(f"{header}\n{_README}")
    (folder / "entry_points.txt").write_text(f"[northbridge.backends]\n{name} = {module}\n")
    return folder
