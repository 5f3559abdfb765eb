"""Malicious uploads of Lightning are told from its own repository, which says the same version."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from northbridge.errors import UnsupportedError
from northbridge.lightning.classes import classes
from northbridge.lightning.corrections.table import reason_against, register
from northbridge.lightning.namespaces import NAMESPACES, Namespace
from northbridge.lightning.versions import reason_against_uploads, reason_against_version
from northbridge.process_record import Entry, record

Install = Callable[..., None]
SAYS = "was a malicious upload: uninstall it now, and see GHSA-w37p-236h-pfx3"
CLONE = {"url": "https://github.com/Lightning-AI/pytorch-lightning", "vcs_info": {"vcs": "git", "commit_id": "7f0c343"}}
ARCHIVE = {"url": "https://files.example/lightning-2.6.2.tar.gz", "archive_info": {}}


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Install the metadata of a distribution before all others; ``origin`` is its ``direct_url.json``."""

    def install(name: str, version: str, origin: object = None) -> None:
        info = tmp_path / name / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        if origin is not None:
            (info / "direct_url.json").write_bytes(origin if isinstance(origin, bytes) else json.dumps(origin).encode())
        monkeypatch.syspath_prepend(tmp_path / name)

    return install


@pytest.mark.parametrize("name", ["lightning", "pytorch-lightning", "lightning-fabric"])
def test_one_upload_spoils_every_namespace(name: str, namespace: Namespace, install: Install) -> None:
    install(name, "2.6.3")

    assert reason_against(namespace) == f"{name} 2.6.3 {SAYS}"


def test_classes_of_a_good_lightning_beside_an_upload(install: Install) -> None:
    install("pytorch-lightning", "2.6.2")

    with pytest.raises(UnsupportedError) as refusal:
        classes.__wrapped__(NAMESPACES["lightning.pytorch"])  # the others keep their classes

    assert str(refusal.value) == f"lightning.pytorch is not used: pytorch-lightning 2.6.2 {SAYS}"


@pytest.mark.parametrize(
    "origin", [CLONE, {"url": "file:///", "dir_info": {}}, {"url": "file:///gone", "dir_info": {"editable": True}}]
)
def test_a_source_build_is_served_and_named(
    origin: Any, namespace: Namespace, install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Namespace, "version", "2.6.2")
    install(namespace.distributions[0], "2.6.2", origin)

    register(namespace.name)

    remark = "(built from source, says 2.6.2; not tested. If a run fails, install 2.6.6)"
    assert Entry(namespace.name, "registered", f"{namespace.name} 2.6.2 {remark}") in record()


@pytest.mark.parametrize(
    "origin",
    [
        None,
        b"",
        b"\xff\xfe",
        b"[" * 100_000,
        [],
        ARCHIVE,
        {**ARCHIVE, "dir_info": {}},
        {**ARCHIVE, **CLONE},
        {**CLONE, "vcs_info": "git"},
        {"url": "file:///etc/passwd", "dir_info": {}},
        {"url": "https://files.example/lightning", "dir_info": {}},
        {"url": "file://[", "dir_info": {}},
        {"dir_info": {}},
    ],
)
def test_anything_else_counts_as_the_upload(origin: object, install: Install) -> None:
    install("lightning", "2.6.2", origin)

    assert reason_against_uploads() == f"lightning 2.6.2 {SAYS}"
    assert reason_against_version("2.6.2", ("lightning",)) == f"version 2.6.2 {SAYS}"


def test_a_lightning_without_metadata_counts_as_the_upload() -> None:
    assert reason_against_version("2.6.2", ("not-installed",)) == f"version 2.6.2 {SAYS}"


def test_a_source_build_does_not_excuse_an_upload(install: Install) -> None:
    install("lightning", "2.6.2", CLONE)
    install("pytorch-lightning", "2.6.2")

    assert reason_against_uploads() == f"pytorch-lightning 2.6.2 {SAYS}"
