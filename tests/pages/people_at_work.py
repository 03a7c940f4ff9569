"""A real server with loans in a ledger, and people who are signed in to its pages."""

import json
import re
from html.parser import HTMLParser
from urllib.parse import urlencode

from likewise.service.tokens import new_token
from tests.support.hostile_text import STRINGS
from tests.support.rule_texts import rule_text
from tests.support.serving import serving, settings

RULE = rule_text(
    {"id": "key", "who": "person", "age": 5, "job": "category", "sex": "protected"},
    metric="linf",
    output_column="approved",
    favourable="yes",
)
PEOPLE = {
    "ana": ("read", "review"),
    "bo": ("read", "review"),
    "reader": ("read",),
    "eraser": ("read", "erase"),
    "chief": ("admin",),
}
HOSTILE = "=<script>window.obeyed=true</script>\"&'"
JOBS = ("nurse", "cook", "clerk", "smith", HOSTILE)


def loan(i, **more):
    """Decision i: two of five get a job's other answer, some distance apart."""
    return {
        "id": f"k{i}",
        "who": f"p{i // 2}",
        "age": 30 + (i * 7 % 40) / 10,
        "job": JOBS[i % 5],
        "sex": "fm"[i // 5 % 2],
        "approved": "yes" if i % 7 else "no",
    } | more


def told(server, decisions, name="default", model=None):
    for values in decisions:
        body = {"values": values} | ({} if model is None else {"model": model})
        answer = server.ask("POST", f"/v1/monitors/{name}/observe", body)
        assert answer.status == 200, answer.body


def work_server(folder, *, text="", more=""):
    """A server with a ledger and a monitor in memory, and a token for each of PEOPLE."""
    tokens, secrets = [], {}
    for name, scopes in PEOPLE.items():
        secrets[name], hashed = new_token()
        tokens.append(
            f'[[tokens]]\nname = "{name}"\nhash = "{hashed}"\nscopes = {json.dumps(scopes)}\n'
        )
    monitors = (
        '[monitors.default]\nrule = "rule.toml"\nledger = "ledger"\ncomparable = true\n'
        f'[monitors.memory]\nrule = "rule.toml"\n{more}'
    )
    path = settings(folder, text + "".join(tokens), rule=RULE, monitors=monitors)
    return serving(path, token=secrets["chief"]), secrets


class Person:
    """Somebody with a token and a browser's cookies, without a browser."""

    def __init__(self, server, token, name="default"):
        self.server, self.token, self.name = server, token, name
        self.cookie = None

    def ask(self, method, path, body=None, **headers):
        if self.cookie:
            headers["cookie"] = self.cookie
        answer = self.server.ask(
            method,
            f"/m/{self.name}/{path}",
            body,
            {"accept": "text/html"} | headers,
            token=self.token,
        )
        if "set-cookie" in answer.headers:
            self.cookie = answer.headers["set-cookie"].partition(";")[0]
        return answer

    def page(self, path):
        """A page's text."""
        answer = self.ask("GET", path)
        assert answer.status == 200, (answer.status, answer.body[:500])
        return answer.body.decode()

    def twin(self, path):
        """What a page says, as JSON."""
        place, question, query = path.partition("?")
        answer = self.ask("GET", f"{place}.json{question}{query}")
        assert answer.status == 200, (answer.status, answer.body[:500])
        return answer.json()

    def send(self, path, fields, page="queue"):
        """Send a form as a page of this person would."""
        csrf = re.search(r'name="csrf" value="([0-9a-f]+)"', self.page(page))[1]
        body = urlencode({"csrf": csrf, **fields}).encode()
        kind = {"content-type": "application/x-www-form-urlencoded"}
        return self.ask("POST", path, body, **kind)


class Text(HTMLParser):
    """The text of a page."""

    def __init__(self, page):
        super().__init__(convert_charrefs=True)
        self.parts = []
        self.feed(page)

    def handle_data(self, data):
        self.parts.append(data)


def text_of(page):
    return " ".join(" ".join(Text(page).parts).split())


__all__ = ["HOSTILE", "STRINGS", "Person", "loan", "text_of", "told", "work_server"]
