"""Install lines in this repository: each names a distribution that is known to be on the public index, or a path."""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from tests.docs.page import ROOT

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # pyright: ignore[reportMissingImports]  # Python 3.10 alone has it

ON_INDEX = {
    *("torch", "torch-npu", "torchao", "lightning", "pytorch-lightning", "lightning-habana", "habana-pyhlml"),
    *("deepspeed", "ray", "neural-compressor-pt", "tensorboardx", "copier", "jsonargparse", "ninja", "pip", "pytest"),
    *("pytest-timeout", "pluggy", "pydantic", "typer", "rich", "packaging", "typing-extensions"),
}
"""Looked up on PyPI when it was written here."""

LIGHTNINGS = ("lightning", "pytorch-lightning")
MALICIOUS = ("2.6.2", "2.6.3")

UNKNOWN = "{}"
"""Stands for a part of a text that is known at run time only."""

_JINJA = re.compile(r"\$?\{\{.*?\}\}")
_SHELL = re.compile(r"\$\(\w+\)|\$\{\w+\}|\$\w+")
_FENCE = re.compile(r"^ *```(?P<kind>\w*)[^\n]*\n(?P<body>.*?)^ *```$", flags=re.M | re.S)
_PART = r"[^\s,;:()`'\"#&|<>]+"
_OPERATORS = r"(?:[<>]=?[^\s,;:()`'\"#&|<>]+)?"
_WORD = rf"'[^']*'|\"[^\"]*\"|{_PART}(?::{_PART})*{_OPERATORS}"
_COMMAND = re.compile(
    r"(?<![\w-])(?:pip[\d.]*|pipx|uv|poetry|conda)(?: +(?:pip|tool|-\S+(?: +\{\})?))* +(?:install|add|download)\b"
    rf"(?! +(?:the|it)\b)(?P<words>(?: +(?:{_WORD}))*)"
)
_OURS_IN_PROSE = re.compile(r"\b(?:re)?(?:install|upgrade) +[`'\"]*northbridge(?:-npu|-xpu)?(?![\w-])")
_WITH_A_PLACE = ("--index-url", "--extra-index-url", "--target", "--group", "-c", "-r", "-e", "-d", "-t", "--python")
_PLACE = re.compile(r"[./]|git\+|file:|https?:|…|.*\.whl\b")


# --- Our distributions


def read(name: str) -> str:
    return (ROOT / name).read_text(errors="replace")


def required(description: str) -> Iterator[Requirement]:
    told = tomllib.loads(_JINJA.sub("jinja", description))
    project = told.get("project", {})
    lists = [told.get("build-system", {}).get("requires", []), project.get("dependencies", [])]
    lists += [*project.get("optional-dependencies", {}).values(), *told.get("dependency-groups", {}).values()]
    yield from (Requirement(each) for group in lists for each in group if isinstance(each, str))


DESCRIPTIONS = [ROOT / "conformance" / "pyproject.toml", *sorted(ROOT.glob("backends/*/pyproject.toml"))]
FOLDERS = {
    tomllib.loads(file.read_text())["project"]["name"]: file.parent.relative_to(ROOT).as_posix()
    for file in DESCRIPTIONS
}
"""The folders of our distributions, but for ``northbridge`` itself."""

OF_OURS = {
    file.parent.relative_to(ROOT).as_posix(): {
        name for each in required(file.read_text()) if (name := canonicalize_name(each.name)).startswith("northbridge")
    }
    for file in DESCRIPTIONS
}
"""What the distribution of each folder requires of ours."""

EXTRAS = {
    extra: brings
    for file in (ROOT / "pyproject.toml", *DESCRIPTIONS)
    for extra, brings in tomllib.loads(file.read_text())["project"].get("optional-dependencies", {}).items()
}
"""What each extra of ours brings."""

_EXTRAS = re.compile(r"\[.*\]")
_FOLDER = re.compile(rf"(.+)/({'|'.join(OF_OURS)})")


# --- Reading


def readings(name: str, text: str) -> Iterator[str]:
    """Yield each text of the file ``name`` in which a command may stand, as one line."""
    name = name.removesuffix(".jinja")
    if name.endswith(".py"):
        yield from of_python(_JINJA.sub("JINJA", text))
        return
    text = _SHELL.sub(UNKNOWN, _JINJA.sub(UNKNOWN, text))
    if not name.endswith(".md"):
        yield from of_lines(text)
        return
    for fence in _FENCE.finditer(text):
        kind, body = fence["kind"], fence["body"]
        yield from [" ".join(body.split())] if kind in ("", "text") else of_lines(body)
    for paragraph in _FENCE.sub("\n\n", text).split("\n\n"):
        yield " ".join(paragraph.split())


def of_lines(text: str) -> Iterator[str]:
    yield from re.sub(r"(?:\\|(?<=install))\n", " ", text).splitlines()


def of_python(source: str) -> Iterator[str]:
    tree, known = ast.parse(source), dict[str, str]()
    for statement in tree.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str(text))):
                known[name] = text
    parts_of_texts = {part for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.List | ast.Tuple | ast.Call):
            texts = (_text(each, known) for each in (node.args if isinstance(node, ast.Call) else node.elts))
            # An unknown part of a list may be any number of words.
            yield " ".join(f'"{each}"' if " " in each else each for each in texts if each != UNKNOWN)
        elif isinstance(node, ast.Constant | ast.JoinedStr | ast.BinOp) and node not in parts_of_texts:
            yield " ".join(_text(node, known).split())
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    yield " ".join(each.string.lstrip("# ") for each in tokens if each.type == tokenize.COMMENT)


def _text(node: ast.AST, known: dict[str, str]) -> str:
    """Return the text that an expression is, as far as its constants tell."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.Name(id=name) | ast.FormattedValue(value=ast.Name(id=name)) if name in known:
            return known[name]
        case ast.JoinedStr(values=values):
            return "".join(_text(each, known) for each in values)
        case ast.BinOp(op=ast.Add(), left=left, right=right):
            return _text(left, known) + _text(right, known)
    return UNKNOWN


# --- Judging


def faults(line: str) -> Iterator[str]:
    """Yield what a line installs from the index that is not there, not ours to name, or malicious."""
    for command in _COMMAND.finditer(line):
        words = [word.strip("'\"") for word in re.findall(_WORD, command["words"])]
        named = [
            word
            for before, word in zip(["", *words], words, strict=False)
            if not word.startswith("-") and before not in _WITH_A_PLACE and not _PLACE.match(word)
        ]
        found = [fault for word in named if (fault := fault_of(word))]
        brought = {canonicalize_name(re.split(r"[^\w.-]", word)[0]) for word in named}
        if "lightning" in brought and "pytorch-lightning" not in brought and "--no-deps" not in words:
            found.append("lightning brings any pytorch-lightning")
        if "--no-deps" not in words:
            found += missing_folders([word for word in words if _PLACE.match(word)])
        yield from (f"{command[0].strip()!r}: {each}" for each in found)
    yield from (f"{each[0]!r}: no place" for each in _OURS_IN_PROSE.finditer(line))


def missing_folders(places: list[str]) -> list[str]:
    """Return what folders of a clone lack: extras, and what they require of ours, which is on no index."""
    named = [_EXTRAS.sub("", place).rstrip("/") for place in places]
    extras = {extra for place in places for each in _EXTRAS.findall(place) for extra in each.strip("[]").split(",")}
    found = [f"no folder has the extra {extra}" for extra in extras if extra not in EXTRAS]
    for place in named:
        if match := _FOLDER.fullmatch(place):
            root, folder = match.groups()
            needed = (root if each == "northbridge" else f"{root}/{FOLDERS[each]}" for each in OF_OURS[folder])
            found += [f"{place} needs {each} in the same command" for each in needed if each not in named]
    return found


def fault_of(word: str) -> str:
    """Return what is wrong with one requirement; empty if nothing is."""
    known = re.sub(r"(?<=[=<>~])\{\}", "0", word).partition(UNKNOWN)[0]
    try:
        wanted = Requirement(known)
    except InvalidRequirement:
        return f"{word!r} is not a requirement"
    name = canonicalize_name(wanted.name)
    if wanted.url is None and name not in ON_INDEX:
        return f"{name} is not on the index"
    return "" if name not in LIGHTNINGS or is_bounded(wanted) else f"{word!r} has no bounds"


def is_bounded(wanted: Requirement) -> bool:
    return not any(map(wanted.specifier.contains, (*MALICIOUS, "2.3.3", "2.8.0")))


def tracked() -> list[str]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    # This file shows bad lines, a link's text is another file's, and a report quotes other packages' tracebacks.
    found = [each for each in listed.split("\0") if (ROOT / each).is_file() and ROOT / each != Path(__file__)]
    return [each for each in found if not each.endswith("/report.json")]


def test_every_install_line_has_a_place_or_a_name_on_the_index() -> None:
    texts = {name: text for name in tracked() if re.search(r"install|download|upgrade", text := read(name))}

    found = {(name, fault) for name, text in texts.items() for line in readings(name, text) for fault in faults(line)}

    assert sorted(found) == []
    assert {"Makefile", "README.md", "docs/install.md", "examples/template/copier.yml", ".ci/run"} <= texts.keys()


@pytest.mark.parametrize(
    ("name", "text", "fault"),
    [
        ("a.md", "Say `pip install\nnorthbridge[float8]`.", "northbridge is not on the index"),
        ("a.md", "```text\nFix: pip install\nnorthbridge-npu\n```", "northbridge-npu is not on the index"),
        ("a.sh", "pip install -q \\\n  torch-acme", "torch-acme is not on the index"),
        ("a.yml", "- run: venv/bin/pip install northbridge", "northbridge is not on the index"),
        ("a.yml.jinja", "pip install {{ name }}", "'{}' is not a requirement"),
        ("a.py", "x = f\"Fix: {'Python, and pip' if x else 'pip'} install northbridge[float8]\"", "no place"),
        ("a.py", 'x = ("Fix: pip install"\n    " northbridge")', "northbridge is not on the index"),
        ("a.py", 'N = "northbridge"\nx = f"pip install {N}-npu"', "northbridge-npu is not on the index"),
        ("a.py", 'run([python, "-m", "pip", "install", *options, "northbridge"])', "northbridge is not on the index"),
        ("a.py", "# pip install\n# northbridge", "northbridge is not on the index"),
        ("a.py", 'x = "Fix: install northbridge-npu"', "no place"),
        ("Makefile", "\tpip install lightning", "'lightning' has no bounds"),
        ("a.md", "    pip install 'lightning>=2.4,<2.8'", "has no bounds"),
        ("a.md", "`pip install 'lightning>=2.4,!=2.6.2,!=2.6.3,<2.8'`", "brings any pytorch-lightning"),
        ("a.md", "`pip install '.[lightning,conformance]'`", "no folder has the extra conformance"),
        ("a.md", "`pip install ./backends/hpu`", "./backends/hpu needs . in the same command"),
        ("a.md", "`pip install . /clone/conformance[x]`", "/clone/conformance needs /clone in the same command"),
    ],
)
def test_a_bad_line_is_found(name: str, text: str, fault: str) -> None:
    found = [each for line in readings(name, text) for each in faults(line)]

    assert any(fault in each for each in found), found


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.md", "`pip install '.[lightning]' ./backends/npu --index-url https://x.y torch`, or `pip install` nothing"),
        ("a.yml", "- run: pip install torch${{ matrix.torch && format('=={0}', matrix.torch) }} -e ."),
        ("a.py", 'x = f"Fix: pip install torch=={version.base} --index-url https://x.y"'),
        ("a.py", 'x = f"Fix: in a clone of Northbridge, pip install . ./backends/{name}"'),
        ("a.py", 'run([python, "-m", "pip", "install", f"lightning=={x}", f"pytorch-lightning=={x}", *more])'),
        ("a.md", "Northbridge, once installed, and `northbridge list`"),
    ],
)
def test_a_good_line_passes(name: str, text: str) -> None:
    assert [each for line in readings(name, text) for each in faults(line)] == []


# --- What metadata requires


def test_metadata_requires_of_ours_this_very_version() -> None:
    """A vendor's requires nothing of ours, whose names anybody may take on the index."""
    names = [name for name in tracked() if re.search(r"(^|/)pyproject\.toml(\.jinja)?$", name)]
    pages = [fence["body"] for name in tracked() if name.endswith(".md") for fence in _FENCE.finditer(read(name))]
    texts = [*map(read, names), *(body for body in pages if "\n[project]\n" in f"\n{body}")]
    fallback = tomllib.loads(read("pyproject.toml"))["tool"]["hatch"]["version"]["fallback-version"]
    major, minor = map(int, fallback.split(".")[:2])

    found = [each for text in texts for each in required(text)]

    ours = [str(each) for each in found if canonicalize_name(each.name).startswith("northbridge")]
    assert len(names) > 8
    assert ours == [f"northbridge<{major}.{minor + 1},>={major}.{minor}"] * len(DESCRIPTIONS)
    assert not [each for each in found if canonicalize_name(each.name) in LIGHTNINGS and not is_bounded(each)]
    assert {canonicalize_name(Requirement(each).name) for brings in EXTRAS.values() for each in brings} <= ON_INDEX
