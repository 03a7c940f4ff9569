"""Records requests to `likewise serve` and their answers, by route, as golden files store them."""

import csv
import io
import json
import re
import zipfile
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np

from likewise.tables.exact_values import unpack
from likewise.verdict.exact_body import EXACT_CONTENT_TYPE
from tests.support.golden_files import sorted_by_name

PROMISED = (
    "allow",
    "cache-control",
    "content-disposition",
    "content-security-policy",
    "content-type",
    "likewise-instance",
    "location",
    "referrer-policy",
    "retry-after",
    "set-cookie",
    "www-authenticate",
    "x-accel-buffering",
    "x-content-type-options",
    "x-likewise-complete",
)
EXCEL = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"


class Exchanges:
    """What was asked and answered, by route.

    ask     makes a request: method, path, body, headers; an answer with status, headers, body
    """

    def __init__(self, ask, placeholders, tokens=None):
        self._ask = ask
        self._placeholders = placeholders
        self._tokens = tokens or {}
        self.by_route = {}

    def play(
        self,
        case,
        route,
        path=None,
        *,
        body=None,
        type=None,
        token="chief",
        headers=None,
        sent=None,
    ):
        """Make a request and record it; the answer.

        route   method and path as the application knows it, such as "GET /m/{name}/queue"
        path    as it is asked for; that of the route unless given
        body    JSON, or bytes of a content type
        sent    how the body is recorded, if not as it is
        """
        method, _, pattern = route.partition(" ")
        path = pattern if path is None else path
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        given = dict(headers or {})
        if body is not None:
            given["Content-Type"] = type or "application/json"
        told = dict(given)
        if token is not None:
            given["Authorization"] = f"Bearer {self._tokens[token]}"
        answer = self._ask(method, path, b"" if body is None else raw, given)
        self.record(case, route, f"{method} {path}", answer, token, told, sent or body)
        return answer

    def record(self, case, route, request, answer, token, headers, sent, body=None):
        """Record an exchange that was made elsewhere; `body` instead of the answer's own."""
        if isinstance(sent, bytes):
            sent = sent.decode()
        recorded = {"case": case, "request": request}
        recorded |= {} if token is None else {"token": token}
        recorded |= {"headers": headers} if headers else {}
        recorded |= {} if sent is None else {"body": sent}
        told = {
            "status": answer.status,
            "headers": {
                name: _header(name, answer.headers) for name in PROMISED if name in answer.headers
            },
            "body": body_of(answer) if body is None else body,
        }
        replaced = self._placeholders.replaced(recorded | {"answer": told})
        self.by_route.setdefault(route, []).append(replaced)


def _header(name, headers):
    value = headers[name]
    if name == "set-cookie":  # its value is random; its attributes are promised
        return re.sub("=[^;]{20,}", "=<cookie>", value, count=1)
    if name == "retry-after" and int(value) > 1:  # it counts down while the test runs
        return "<seconds>"
    return value


def body_of(answer):
    """The body of an answer, decoded by its content type."""
    kind = answer.headers.get("content-type", "").partition(";")[0]
    body = answer.body
    if not body:
        return None
    if kind == "application/json":
        return sorted_by_name(json.loads(body))
    if kind == "application/x-ndjson":
        return [sorted_by_name(json.loads(line)) for line in body.splitlines()]
    if kind == EXACT_CONTENT_TYPE:
        return sorted_by_name(plain(unpack(body)))
    if kind == "text/event-stream":
        return events_in(body.decode())
    if kind == "text/html":
        return outline_of(body.decode())
    if kind == "text/csv":
        return list(csv.reader(io.StringIO(body.decode())))
    if kind == EXCEL:
        return sheets_in(body)
    if kind in ("text/css", "text/javascript"):
        return "<file>"
    if body.startswith(b"# HELP"):
        return "<metrics>"  # which have golden files of their own
    return body.decode().splitlines()


def plain(value):
    """An answer with exact values, as JSON has it; arrays say their type."""
    if isinstance(value, np.ndarray):
        return {"array": str(value.dtype), "values": value.tolist()}
    if isinstance(value, dict):
        return {str(name): plain(one) for name, one in value.items()}
    return [plain(one) for one in value] if isinstance(value, list | tuple) else value


def events_in(text):
    """Server-sent events: their fields, with the data decoded."""
    events = []
    for block in text.strip().split("\n\n"):
        fields = {}
        for line in block.split("\n"):
            name, _, value = line.partition(": ")
            fields[name] = sorted_by_name(json.loads(value)) if name == "data" else value
        events.append(fields)
    return events


def sheets_in(body):
    """The cells of an Excel workbook by sheet and row, as text or numbers: as they are written."""
    name = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
    found = {}
    with zipfile.ZipFile(io.BytesIO(body)) as parts:
        book = ElementTree.fromstring(parts.read("xl/workbook.xml"))
        for number, sheet in enumerate(book.iter(f"{name}sheet"), 1):
            tree = ElementTree.fromstring(parts.read(f"xl/worksheets/sheet{number}.xml"))
            found[sheet.get("name")] = [
                {_column(cell.get("r")): _cell(cell) for cell in row.iter(f"{name}c")}
                for row in tree.iter(f"{name}row")
            ]
    return found


def _column(place):
    return place.rstrip("0123456789")


def _cell(cell):
    text = "".join(cell.itertext())
    if cell.get("t") == "inlineStr":
        return text
    return bool(int(text)) if cell.get("t") == "b" else float(text)


class _Outline(HTMLParser):
    """What a program that reads a page relies on: its title and its forms."""

    def __init__(self):
        super().__init__()
        self.title, self.headings, self.forms = "", [], []
        self._inside = None

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        if tag in ("title", "h1", "h2"):
            self._inside = tag
            if tag != "title":
                self.headings.append("")
        if tag == "form":
            form = {
                "method": given.get("method", "get"),
                "action": given.get("action"),
                "names": [],
            }
            self.forms.append(form)
        if tag in ("input", "select", "textarea") and self.forms and "name" in given:
            names = self.forms[-1]["names"]
            if given["name"] not in names:
                names.append(given["name"])

    def handle_endtag(self, tag):
        if tag == self._inside:
            self._inside = None

    def handle_data(self, data):
        if self._inside == "title":
            self.title += data
        elif self._inside is not None:
            self.headings[-1] += data


def outline_of(page):
    outline = _Outline()
    outline.feed(page)
    found = {"title": outline.title, "headings": outline.headings}
    return found | ({"forms": outline.forms} if outline.forms else {})


def file_of(route):
    """The name of the golden file of a route.

    >>> file_of("POST /v1/monitors/{name}/observe")
    'http/post-monitors-observe.json'
    """
    method, _, path = route.partition(" ")
    words = path.replace("/v1/", "/").replace("{name}/", "").replace(".", "-")
    words = re.sub(r"[{}]|:path", "", words).strip("/").replace("/", "-") or "index"
    return f"http/{method.lower()}-{words}.json"
