"""The folder of the compiled chip."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from northbridge_cpu_sim.build.cache import is_whole, keep, open_folder
from northbridge_cpu_sim.build.extension import locate
from northbridge_cpu_sim.build.recipe import Recipe, find_compiler, key
from northbridge_cpu_sim.errors import BuildError
from northbridge_cpu_sim.settings import SimSettings


@pytest.fixture
def open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("open_umask")
def test_a_missing_folder_is_made_for_the_user_alone(tmp_path: Path) -> None:
    folder = open_folder(tmp_path / "northbridge" / "cpu_sim")

    assert [stat.S_IMODE(path.stat().st_mode) for path in (folder, folder.parent)] == [0o700] * 2


@pytest.mark.parametrize(("cache", "folder"), [("{}", "."), ("", ".cache"), ("relative/path", ".cache")])
def test_the_default_is_in_the_users_cache(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cache: str, folder: str
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", cache.format(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))

    assert open_folder(None) == tmp_path / folder / "northbridge" / "cpu_sim"


def test_a_user_without_a_home_is_told_which_variable_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", "~")

    with pytest.raises(BuildError, match=r"no home folder .* set NORTHBRIDGE_CPU_SIM_CACHE"):
        open_folder(None)


@pytest.fixture
def give_away(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], None]:
    """Let a path belong to another user."""
    lstat = Path.lstat
    given: set[Path] = set()

    def find(path: Path) -> os.stat_result:
        found = lstat(path)
        return os.stat_result((*found[:4], os.geteuid() + 1, *found[5:])) if path in given else found

    monkeypatch.setattr(Path, "lstat", find)
    return given.add


ONLY_YOURS = "set NORTHBRIDGE_CPU_SIM_CACHE to a folder that only you can write"


@pytest.mark.parametrize(
    ("foreign", "mode", "cure"),
    [
        ("cache", 0o777, f"delete it, because others may have filled it, or {ONLY_YOURS}"),
        (".", 0o775, ONLY_YOURS),
    ],
)
def test_a_folder_that_others_can_write_is_refused(tmp_path: Path, foreign: str, mode: int, cure: str) -> None:
    """The advice is to delete it: after a chmod, what others have put there would be loaded."""
    cache = open_folder(tmp_path / "cache")
    (tmp_path / foreign).chmod(mode)

    with pytest.raises(BuildError) as caught:
        open_folder(cache)

    assert str(caught.value) == (
        f"cannot use the simulated chip's cache: {tmp_path / foreign} can be written by others (mode {mode:o})."
        f" Fix: {cure}"
    )


@pytest.mark.parametrize("mode", [0o755, 0o1777])
def test_a_parent_that_others_can_read_does_not_matter(tmp_path: Path, mode: int) -> None:
    """Nor is one like /tmp, in which nobody can replace another's folder."""
    tmp_path.chmod(mode)

    assert open_folder(tmp_path / "cache") == tmp_path / "cache"


def test_a_folder_behind_a_link_is_the_one_it_leads_to(tmp_path: Path) -> None:
    """As homes are on clusters; the real path is what is looked at."""
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (tmp_path / "home").symlink_to("elsewhere")

    assert open_folder(tmp_path / "home" / "cache") == tmp_path / "elsewhere" / "cache"

    (tmp_path / "elsewhere").chmod(0o777)
    with pytest.raises(BuildError, match=rf"{tmp_path / 'elsewhere'} can be written by others"):
        open_folder(tmp_path / "home" / "cache")


def test_a_file_in_its_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "cache").touch()

    with pytest.raises(BuildError, match=r"cache is not a folder\. Fix: set NORTHBRIDGE_CPU_SIM_CACHE to a folder"):
        open_folder(tmp_path / "cache")


@pytest.mark.parametrize("whose", ["cache", "."])
def test_a_folder_of_another_user_is_refused(tmp_path: Path, give_away: Callable[[Path], None], whose: str) -> None:
    cache = open_folder(tmp_path / "cache")
    give_away(tmp_path / whose)
    user = os.geteuid()

    with pytest.raises(BuildError) as caught:
        open_folder(cache)

    told = f"{tmp_path / whose} belongs to user {user + 1}, and this process is user {user}. Fix: set"
    assert told in str(caught.value)


def kept(folder: Path, content: bytes) -> Path:
    """A chip of ``content`` as a build leaves it."""
    built = folder / "built.so"
    built.write_bytes(content)
    keep(built, folder / f"{'k' * 32}.so")
    return folder / f"{'k' * 32}.so"


@pytest.mark.usefixtures("open_umask")
def test_what_a_build_leaves_is_whole_and_the_users_alone(tmp_path: Path) -> None:
    chip = kept(tmp_path, b"machine code" * 1000)

    assert is_whole(chip)
    assert stat.S_IMODE(chip.stat().st_mode) == 0o600

    renamed = chip.rename(tmp_path / f"{'j' * 32}.so")
    assert not is_whole(renamed)
    assert not is_whole(chip)  # there is none


def test_a_damaged_file_is_never_whole(tmp_path: Path) -> None:
    """One bit anywhere, an end that is missing, and more at the end: each would kill the process that loads it."""
    chip = kept(tmp_path, bytes(range(256)) * 40)
    good = chip.read_bytes()
    places = range(0, len(good), len(good) // 65)
    damaged = [good[:place] + bytes([good[place] ^ 1]) + good[place + 1 :] for place in places]
    damaged += [good[:place] for place in places] + [good + b"x", good + good[-96:], b""]

    for each in damaged:
        chip.write_bytes(each)
        assert not is_whole(chip)


def leave_a_link(chip: Path) -> None:
    chip.symlink_to(chip.with_name("another.so"))


def leave_to_the_group(chip: Path) -> None:
    chip.touch()
    chip.chmod(0o620)


@pytest.mark.parametrize(
    ("leave", "said"),
    [
        (leave_a_link, "is a symbolic link to {}/another.so"),
        (leave_to_the_group, "can be written by others (mode 620)"),
        (os.mkfifo, "is neither a file nor a folder"),  # it would be waited for for ever
    ],
)
def test_a_file_that_is_not_the_users_alone_is_refused(
    tmp_path: Path, leave: Callable[[Path], None], said: str
) -> None:
    leave(chip := tmp_path / "chip.so")

    with pytest.raises(BuildError) as caught:
        is_whole(chip)

    told = f"cannot use the simulated chip's cache: {chip} {said.format(tmp_path)}. Fix: delete it"
    assert str(caught.value) == told


@pytest.mark.parametrize("name", ["{key}.lock", "{key}.log"])
def test_a_link_to_a_file_is_refused(tmp_path: Path, name: str) -> None:
    """Else the build would empty the file that it leads to, or show it as the compiler's words."""
    recipe = Recipe((tmp_path,))
    other = tmp_path / "other.txt"
    other.write_text("somebody's")
    (tmp_path / "cache").mkdir(mode=0o700)
    (tmp_path / "cache" / name.format(key=key(recipe, find_compiler()))).symlink_to(other)

    with pytest.raises(BuildError, match=r"is a symbolic link to .*other\.txt\. Fix: delete it"):
        locate(SimSettings(cache=tmp_path / "cache"), recipe)

    assert other.read_text() == "somebody's"


def test_a_folder_that_cannot_be_made_is_refused() -> None:
    folder = Path("/proc/nosuch/cache")

    with pytest.raises(BuildError) as caught:
        open_folder(folder)

    assert str(caught.value) == (
        f"cannot write the simulated chip's cache {folder}: No such file or directory. Fix: make it writable, or set"
        " NORTHBRIDGE_CPU_SIM_CACHE"
    )
    assert caught.value.__suppress_context__
