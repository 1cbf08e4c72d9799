"""What the tests of all pages share: names that attack a page, and what a safe page is."""

import re
from html.parser import HTMLParser

PAYLOADS = [
    "<script>alert(1)</script>",
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "javascript:alert(1)",
    '"><svg onload=alert(1)>',
    "' onmouseover='alert(1)",
    "<iframe src=https://example.org>",
    "{{ 7 * 7 }}",
    "{% raw %}",
    "</title><h1>x",
    "<!-- x",
    "<style>*{display:none}</style>",
    "&lt;b&gt;",
    "$\\frac{$",
    "_hidden",
    "\x1b[31m",
    "a\nb",
    "<link rel=stylesheet href=//example.org/x.css>",
    "]]><b>",
    "<base href=//example.org>",
    "\u202egnp.exe",
    "\U0001f600",
    "<meta http-equiv=refresh content=0>",
    "</td></tr></table>",
    "<a href=javascript:x>",
    "<object data=x>",
    "\ufffe",
    "'",
    '"',
    "`",
    "<",
    ">",
    "&",
    "<?php",
    "<![CDATA[x",
    "%3Cscript%3E",
    "\\u003cscript\\u003e",
    "<math><mi xlink:href=x>",
    "<b",
    "=1+1",
]
"""Names and texts that a page must show as they are."""


class Parsed(HTMLParser):
    """All elements of a page with their attributes, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words += data

    def count(self, tag: str) -> int:
        """How many elements of a kind there are."""
        return sum(found == tag for found, _ in self.elements)


def check_safe(text: str, styles: int = 1) -> Parsed:
    """A page that shows what it is given as text and loads nothing; `styles` is how many style elements it has."""
    parsed = Parsed(text)
    known = {
        "html", "head", "meta", "title", "style", "body", "h1", "h2", "h3", "p", "div", "span", "table", "tr", "th",
        "td", "figure", "img", "figcaption", "b", "pre", "details", "summary", "footer",
    }  # fmt: skip
    allowed = {"lang", "charset", "http-equiv", "content", "name", "class", "scope", "src", "alt"}
    assert {tag for tag, _ in parsed.elements} <= known
    assert {name for _, attributes in parsed.elements for name in attributes} <= allowed
    assert parsed.count("style") == styles
    sources = [attributes["src"] or "" for tag, attributes in parsed.elements if tag == "img"]
    assert all(re.fullmatch(r"data:image/(svg\+xml|png);base64,[A-Za-z0-9+/=]+", source) for source in sources)
    assert not re.search(r"url\s*\(|@import|<script|<link", text)
    policies = [a["content"] or "" for _, a in parsed.elements if a.get("http-equiv") == "Content-Security-Policy"]
    assert len(policies) == 1
    assert policies[0].startswith("default-src 'none'; img-src data:; style-src 'unsafe-inline'")
    return parsed
