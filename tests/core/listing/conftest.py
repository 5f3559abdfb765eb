"""Environments to list."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.core.conftest import Site


@pytest.fixture(scope="session")
def without_lightning(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """Everything that is installed here but Lightning, for Pythons that a test starts."""
    folder, farm = tmp_path_factory.mktemp("hook"), tmp_path_factory.mktemp("packages")
    (packages,) = (Path(each) for each in sys.path if (Path(each) / "lightning").is_dir())
    for each in packages.iterdir():
        if (
            not each.name.startswith(("lightning-", "lightning_fabric", "pytorch_lightning"))
            and each.name != "lightning"
        ):
            (farm / each.name).symlink_to(each)
    (folder / "sitecustomize.py").write_text(
        f"import sys; sys.path[:] = [{str(farm)!r} if each == {str(packages)!r} else each for each in sys.path]"
    )
    return Site((folder,), folder)
