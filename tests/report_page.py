"""The page of a report, as its source says it."""

from __future__ import annotations

from html.parser import HTMLParser

EMPTY_ICON = "data:,"
"""Where a page's link to its icon leads, which keeps a browser from asking a server for one."""

Attributes = dict[str, str | None]


class Page(HTMLParser):
    """The elements of a page and its text; scripts and styles apart."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, Attributes]] = []
        self.text = ""
        self.raw: dict[str, list[str]] = {"script": [], "style": []}
        self._within = ""
        self.feed(source)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._within = tag if tag in self.raw else ""

    def handle_endtag(self, tag: str) -> None:
        self._within = ""

    def handle_data(self, data: str) -> None:
        if self._within:
            self.raw[self._within].append(data)
        else:
            self.text = f"{self.text} {' '.join(data.split())}"

    def attributes(self, name: str) -> list[str]:
        """Return the values of every attribute of this name."""
        return [value or "" for _, attributes in self.elements for key, value in attributes.items() if key == name]


def find_broken_links(source: str) -> list[str]:
    """Return every link of a page that leads nowhere, or away from the page."""
    page = Page(source)
    whole = {EMPTY_ICON, *(f"#{name}" for name in page.attributes("id"))}
    links = [*page.attributes("href"), *page.attributes("src"), *page.attributes("action")]
    return [link for link in links if link not in whole]
