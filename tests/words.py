"""Check words, sentences, test names and error messages against ``words.toml``: ``python -m tests.words``.

A message is what an error or a warning is made with in ``core/`` or ``backends/``; interpolations count as written.
"""

from __future__ import annotations

import ast
import re
import statistics
import sys
import tokenize
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # pyright: ignore[reportMissingImports]  # Python 3.10 alone has it


RULES: dict[str, Any] = tomllib.loads((Path(__file__).parent / "words.toml").read_text())
LIMITS: dict[str, Any] = RULES["limits"]
NO_SENTENCE = r"\A---\n.*?\n---\n|^ *(```|~~~).*?^ *\1|<!--.*?-->|\]\([^)]*\)|<[^>]*>|^ {4}\S+ {2,}.*$"
# An item of a list, a heading, a cell of a table and the title of an admonition end a sentence as a full stop does.
END = r"(\n\s*\n|\n\s*(?:[-*+#>|]|\d+\.|!!!|\?\?\?)|\||[.!?](?=\W*\s))"
SAID_WITH = re.compile(r"\b([A-Z]\w*Error|BadParameter|warn|rank_zero_\w+)$")


def find_words(text: str, *, is_name: bool = False) -> Iterator[str]:
    """Yield each forbidden word of a text, or of the words of a name, with what to write in its place."""
    for rule in RULES["words"]:
        found = re.search(rf"\b(?:{rule['pattern']})\b", text, re.IGNORECASE)
        if found and (is_name or not rule.get("in_names_only")):
            yield f"{found[0]!r}: write {rule['instead']}"


def read_page(page: str) -> Iterator[tuple[int, str, str]]:
    """Yield the line of each fault of a Markdown page, the fault, and where it stands."""
    page = re.sub(NO_SENTENCE, lambda code: "\n" * code[0].count("\n"), page, flags=re.MULTILINE | re.DOTALL)
    line = 1
    for sentence in re.split(END, re.sub(r"`[^`]+`", "code", page)):
        if (words := len(re.findall(r"\S*\w\S*", sentence))) > LIMITS["words_of_a_sentence"]:
            yield line, f"a sentence of {words} words", sentence
        yield from ((line, fault, sentence) for fault in find_words(sentence))
        line += sentence.count("\n")


def read_module(module: ast.Module, *, is_test: bool) -> Iterator[tuple[int, str, str]]:
    """Yield the line of each fault of a module, the fault, and the name or the text that has it."""
    for node in ast.walk(module):
        line = getattr(node, "lineno", 1)
        name = getattr(node, "name", None) or getattr(node, "arg", None)
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            name = node.id if isinstance(node, ast.Name) else node.attr
        if isinstance(name, str) and not isinstance(node, ast.alias | ast.keyword) and name not in RULES["allowed"]:
            if name.startswith("test_") and len(name) > LIMITS["characters_of_a_test_name"]:
                yield line, f"a name of {len(name)} characters", name
            words, is_name = re.sub(r"(?<=[a-z])(?=[A-Z])|_+", " ", name), not (is_test or name.startswith("test_"))
            yield from ((line, fault, name) for fault in find_words(words, is_name=is_name))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield from ((line, fault, node.value) for fault in find_words(node.value))


def read_comments(file: Path) -> Iterator[tuple[int, str, str]]:
    """Yield the line of each fault in the comments of a module, the fault, and the comment."""
    with file.open("rb") as source:
        for token in tokenize.tokenize(source.readline):
            if token.type == tokenize.COMMENT:
                yield from ((token.start[0], fault, token.string) for fault in find_words(token.string))


def read_messages(module: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of each message that an error or a warning is made with."""
    for node in ast.walk(module):
        if isinstance(node, ast.Call) and node.args and SAID_WITH.search(ast.unparse(node.func)):
            text = "".join(_parts(node.args[0]))
            if " " in text and not isinstance(node.args[0], ast.Name | ast.Call | ast.IfExp):
                yield node.lineno, text


def _parts(text: ast.expr) -> Iterator[str]:
    if isinstance(text, ast.BinOp):
        yield from (*_parts(text.left), *_parts(text.right))
    elif isinstance(text, ast.JoinedStr):
        for part in text.values:
            yield from _parts(part.value if isinstance(part, ast.FormattedValue) else part)
    else:
        yield str(text.value) if isinstance(text, ast.Constant) else ast.unparse(text)


def main(root: Path) -> int:
    """Print each fault, and the lengths of messages; return 1 where there are faults or the messages are too long."""
    faults, messages = [], []
    for path in sorted(root.rglob("*.[mp][dy]")):
        where = path.relative_to(root)
        if where.parts[0].startswith(".") or where.parts[0] in ("site", "dist"):
            continue
        if path.suffix == ".md":
            found = read_page(path.read_text())
        else:
            module = ast.parse(path.read_text())
            is_test = where.parts[0] == "tests" or where.name.startswith("test_")
            found = chain(read_module(module, is_test=is_test), read_comments(path))
            if where.parts[0] in ("core", "conformance", "backends", "tools"):
                messages += [(len(text), f"{where}:{line}") for line, text in read_messages(module)]
        faults += [f"{where}:{line}: {fault}: {' '.join(text.split())[:80]}" for line, fault, text in found]
    print(*faults, sep="\n")
    lengths = sorted(length for length, _ in messages) or [0]
    median, high = statistics.median(lengths), lengths[len(lengths) * 9 // 10]
    print(f"{len(messages)} messages: median {median:g} characters, 90th percentile {high}; {len(faults)} faults")
    return int(bool(faults) or median > LIMITS["median_message"] or high > LIMITS["high_message"])


if __name__ == "__main__":
    sys.exit(main(Path()))
