"""Add what the site shows from outside of docs/, lead on from the addresses of former pages, and turn what GitHub shows
well into what the site does: sections into tabs, alerts into boxes, a report's file into its page, and a name of the
reference into its docstring."""

from __future__ import annotations

import posixpath
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # pyright: ignore[reportMissingImports]  # Python 3.10 alone has it

ROOT = Path(__file__).parents[2]

OUTSIDE = {
    "ARCHITECTURE.md": "architecture.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "backends/hpu/float8-errors.md": "reports/float8-errors.md",
    "backends/npu/contract-report.md": "reports/npu-contract.md",
    "bench/figures.md": "reports/figures.md",
    "bench/ranks.md": "reports/ranks.md",
    "conformance/claims.md": "reports/claims.md",
    "examples/simulated_gaudi.md": "reports/runs-on-gaudi.md",
    "examples/simulated_teco.md": "reports/runs-on-teco.md",
    "tests/compat/results.md": "reports/torch-and-python.md",
    "tests/faults/wrong-backends.md": "reports/wrong-backends.md",
    "tests/matrix/results.md": "reports/lightning.md",
    "tests/real/lazy.md": "reports/lazy.md",
    "tests/real/rgpu.md": "reports/rgpu.md",
    "tests/real/vulkan.md": "reports/vulkan.md",
    "tests/zoo/models.md": "reports/zoo.md",
}
"""Pages of the site, by the files of the repository that they are made of."""

MOVED = {
    "compile.md": "faster.md#compile",
    "deepspeed.md": "larger-models.md#deepspeed",
    "faq.md": "errors.md",
    "float8-errors.md": "reports/float8-errors.md",
    "float8.md": "precision.md",
    "graphs.md": "faster.md#graphs",
    "how-a-backend-is-found.md": "glossary.md#how-a-backend-is-found",
    "layers.md": "glossary.md",
    "many-ranks.md": "multi-node.md#many-ranks-on-one-machine",
    "matrix.md": "reports/lightning.md",
    "optimizers.md": "faster.md#fused-optimizers",
    "reference/conformance.md": "reference/plugin.md#conformance-suite",
    "reference/discovery.md": "reference/plugin.md#backends-from-a-script",
    "reference/errors.md": "reference/plugin.md#error-classes",
    "reference/mixins.md": "reference/lightning.md#mixins",
    "reports/index.md": "evidence.md",
    "sharded.md": "larger-models.md",
    "shown/conformance.md": "prove-your-backend.md#4-read-the-verdicts",
    "shown/doctor.md": "doctor.md",
    "shown/hang.md": "hang.md",
    "simulated-gaudi.md": "hpu.md#try-it-without-a-card",
    "simulated-intel-gpus.md": "xpu.md#try-it-without-a-card",
    "simulated-teco.md": "sdaa.md#try-it-without-a-card",
    "strict-options.md": "faults.md#strict-options",
}
"""Where each former page went; a ``#`` leads to one section of the new page."""

NAME = re.compile(r"^- `(?P<name>northbridge[\w.]*)`.*?(?: <!-- (?P<options>.+) -->)?$", re.MULTILINE)
"""A line of the reference: a name, and options of mkdocstrings; ``make reference`` writes the sentence between them."""

_LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^\]]*)\]\((?P<target>[^)#\s]+)(?P<section>#[^)\s]*)?\)")
_REPORT = re.compile(r"(?<=/report\.)json(?=\))")
_TABS = re.compile(r"^<!-- tabs -->\n(?P<sections>.*?)^<!-- end of tabs -->\n", re.MULTILINE | re.DOTALL)
_ALERT = re.compile(r"^> \[!(?P<kind>\w+)\]\n> \*\*(?P<title>.+)\.\*\*\n(?P<text>(?:>.*\n)+)", re.MULTILINE)
_BOXES = {"CAUTION": "danger", "WARNING": "warning"}
_REDIRECT = """<!doctype html>
<meta charset="utf-8">
<title>This page has moved</title>
<script>location.replace("{to}".split("#")[0] + (location.hash || "{section}"))</script>
<meta http-equiv="refresh" content="1; url={to}">
<p>This page has moved: <a href="{to}">{to}</a></p>
"""


def on_config(config: MkDocsConfig, /) -> MkDocsConfig:
    """Set the addresses that pyproject.toml names; without any, the site has no link to a repository."""
    told = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["northbridge"]
    config.repo_url = told["repository"] or None
    config.site_url = told["site"] or None
    config.edit_uri = "edit/main/docs/" if config.repo_url else None
    return config


def on_files(files: Files, /, *, config: MkDocsConfig) -> Files:
    """Add the pages from outside, and a page that leads on for each former page."""
    in_nav = str(config.nav)
    for source, uri in OUTSIDE.items():
        inclusion = InclusionLevel.INCLUDED if repr(uri) in in_nav else InclusionLevel.NOT_IN_NAV
        files.append(File.generated(config, uri, abs_src_path=str(ROOT / source), inclusion=inclusion))
    for old, new in MOVED.items():
        page, _, section = new.partition("#")
        if (target := files.get_file_from_path(page)) is None:
            raise PluginError(f"docs/{old} leads to {page}, which is not a page. Fix: correct MOVED in {__file__}")
        there = File(old, config.docs_dir, config.site_dir, config.use_directory_urls)
        to = target.url_relative_to(there) + (f"#{section}" if section else "")
        text = _REDIRECT.format(to=to, section=f"#{section}" if section else "")
        files.append(File.generated(config, there.dest_uri, content=text))
    return files


def on_page_markdown(markdown: str, /, *, page: Page, config: MkDocsConfig, **_: Any) -> str:
    """Let links of GitHub's pages lead to the site's pages; those to other files need an address of the repository.

    Headings between the comments of tabs become tabs, and GitHub's alerts become boxes.
    """
    sources = {uri: source for source, uri in OUTSIDE.items()}
    uri = page.file.src_uri
    source = sources.get(uri, f"docs/{uri}")

    def lead(found: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), found["target"]))
        if ":" in found["target"] or (source.startswith("docs/") and target.startswith("docs/")):
            return found[0]
        there = OUTSIDE.get(target, target.removeprefix("docs/") if target.startswith("docs/") else "")
        if there:
            relative = posixpath.relpath(there, posixpath.dirname(uri) or ".")
        elif config.repo_url:
            relative = f"{config.repo_url.rstrip('/')}/blob/main/{target}"
        else:
            return found["text"]
        return f"{found['image']}[{found['text']}]({relative}{found['section'] or ''})"

    if uri.startswith("reference/"):
        markdown = NAME.sub(_show_docstring, markdown)
    return _ALERT.sub(_make_box, _TABS.sub(_make_tabs, _REPORT.sub("html", _LINK.sub(lead, markdown))))


def _show_docstring(found: re.Match[str]) -> str:
    options = f"\n    options: {{{found['options']}}}" if found["options"] else ""
    return f"\n::: {found['name']}{options}\n"


def _make_tabs(found: re.Match[str]) -> str:
    _, *sections = re.split(r"^### (.+)\n", found["sections"], flags=re.MULTILINE)
    pairs = zip(sections[::2], sections[1::2], strict=True)
    return "".join(f"/// tab | {title}\n{text}\n///\n\n" for title, text in pairs)


def _make_box(found: re.Match[str]) -> str:
    text = re.sub(r"^> ?", "    ", found["text"], flags=re.MULTILINE)
    return f'!!! {_BOXES[found["kind"]]} "{found["title"]}"\n{text}'
