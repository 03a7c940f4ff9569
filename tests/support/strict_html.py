"""A page as HTML, read strictly: nothing unknown, nothing left open, nothing no file could hold."""

import re
from html.parser import HTMLParser

NO_END = {"meta", "link", "wbr", "img", "input", "br"}
TAGS = set(
    re.findall(
        r"\w+",
        """
        html head meta title link style body header main section article footer figure figcaption
        div p b h1 h2 h3 ul li dl dt dd table thead tbody tr th td pre code span bdi wbr details
        summary time svg text line rect path circle
        """,
    )
)


class Reader(HTMLParser):
    """Reads a page strictly: known elements only, each closed where it was opened."""

    def __init__(self, more=()):
        super().__init__(convert_charrefs=True)
        self.allowed = TAGS | set(more)
        self.open, self.seen, self.texts, self.attributes = [], [], [], []

    def handle_starttag(self, tag, attrs):
        assert tag in self.allowed, f"<{tag}> does not belong on the page"
        self.seen.append(tag)
        for name, value in attrs:
            assert not name.startswith("on"), (tag, name)
            self.attributes.append((tag, name, value))
        if tag not in NO_END:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in NO_END:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag, f"</{tag}> closes something else"

    def handle_data(self, data):
        self.texts.append(data)

    def handle_comment(self, data):
        raise AssertionError(f"a comment: {data}")


def read_strictly(document, more=()):
    """What is on the page; `more` names elements that may be there besides."""
    reader = Reader(more)
    document.encode("utf-8")  # nothing that no file could hold
    reader.feed(document)
    reader.close()
    assert reader.open == []
    return reader
