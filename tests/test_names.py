"""Names and docstrings of the package, as CONTRIBUTING.md asks for them.

One class, one name; functions are verbs; modules can be told apart by their names; a docstring's
first line is a sentence that says what the thing does or is.
"""

import ast
from collections import defaultdict
from functools import cache
from pathlib import Path

import likewise

ROOT = Path(likewise.__file__).parent
SHARED_MODULE_NAMES = {"__init__", "__main__", "protocol", "settings"}
WORDS = {"one", "told", "said", "given", "found", "kept", "some"}
IRREGULAR = set(
    [
        "begun",
        "bound",
        "bought",
        "broken",
        "brought",
        "built",
        "caught",
        "chosen",
        "cut",
        "dealt",
        "done",
        "drawn",
        "driven",
        "fed",
        "felt",
        "forgotten",
        "gone",
        "grown",
        "heard",
        "held",
        "hidden",
        "known",
        "laid",
        "led",
        "left",
        "lent",
        "lost",
        "made",
        "meant",
        "met",
        "paid",
        "proven",
        "risen",
        "seen",
        "sent",
        "shown",
        "sold",
        "spent",
        "split",
        "spoken",
        "stood",
        "stuck",
        "taken",
        "taught",
        "thought",
        "thrown",
        "told",
        "understood",
        "won",
        "worn",
        "written",
    ]
) - {"cut", "split"}
NOT_PARTICIPLES = set(
    [
        "bed",
        "bleed",
        "breed",
        "bring",
        "embed",
        "exceed",
        "feed",
        "heed",
        "king",
        "need",
        "ping",
        "proceed",
        "ring",
        "seed",
        "shed",
        "sing",
        "speed",
        "spring",
        "string",
        "succeed",
        "swing",
        "thing",
        "weed",
    ]
)
STATES = {"closed", "embedding", "repeated"}
STATES |= {"pooling", "served"}
"""Properties that say a state, as `file.closed` of the standard library does, and nouns.

`repeated` of a verdict stands in its JSON, and `pooling` is a setting of an embedder in TOML.
"""
AGREED = {"buffered", "done"}
"""`lw.buffered` is public; `done` is what futures of the standard library have."""
OPENINGS = ("Of ", "The same", "As ")


@cache
def trees():
    return {path: ast.parse(path.read_text()) for path in sorted(ROOT.rglob("*.py"))}


def is_participle(name):
    word = name.strip("_")
    if "_" in word or word in NOT_PARTICIPLES:
        return False
    return word in IRREGULAR or word.endswith(("ed", "ing"))


def functions():
    """Yield the place, and the node, of every function and method."""
    for path, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{path.relative_to(ROOT)}:{node.lineno} {node.name}", node


def is_property(node):
    names = {ast.unparse(one) for one in node.decorator_list}
    return isinstance(node, ast.AsyncFunctionDef) or not names.isdisjoint(
        {"property", "cached_property"}
    )


def test_public_class_has_a_name_of_its_own():
    homes = defaultdict(list)
    for path, tree in trees().items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(str(path.relative_to(ROOT)))
    assert not {name: where for name, where in homes.items() if len(where) > 1}


def test_module_has_a_name_of_its_own():
    homes = defaultdict(list)
    for path in trees():
        if path.stem not in SHARED_MODULE_NAMES:
            homes[path.stem].append(str(path.relative_to(ROOT)))
    assert not {name: where for name, where in homes.items() if len(where) > 1}


def test_function_is_named_by_a_verb():
    odd = []
    for place, node in functions():
        name = node.name.strip("_")
        if name in AGREED or (name in STATES and is_property(node)):
            continue
        if name in WORDS or is_participle(node.name):
            odd.append(place)
    assert not odd, "\n".join(odd)


def test_docstring_begins_with_a_sentence():
    odd = []
    for path, tree in trees().items():
        for node in ast.walk(tree):
            if not isinstance(
                node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
            ):
                continue
            text = ast.get_docstring(node)
            if not text:
                continue
            first = text.split(maxsplit=1)[0].strip(",.:;")
            if text.startswith(OPENINGS) or (first.istitle() and is_participle(first.lower())):
                line = getattr(node, "lineno", 1)
                odd.append(f"{path.relative_to(ROOT)}:{line} {text.splitlines()[0]}")
    assert not odd, "\n".join(odd)
