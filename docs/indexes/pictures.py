"""The pictures of these pages: `python docs/indexes/pictures.py` draws them anew.

Points come from fixed seeds. What is marked as near, visited or skipped is computed, so a picture
cannot say what is not so. Like docs/picture.svg they have no background, and every colour reads on
white and on black.
"""

import math
from collections.abc import Callable, Collection, Iterable
from itertools import accumulate, product
from pathlib import Path
from random import Random

GREY, BLUE, ORANGE, RED = "#787d85", "#2f81f7", "#d97a0b", "#e5484d"
WIDTH = 600
FONT = "system-ui, 'Segoe UI', Helvetica, Arial, sans-serif"
Spot = tuple[float, float]
Ball = tuple[Spot, float]


def number(value: object) -> str:
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else str(value)


class Picture:
    """An SVG, part by part."""

    def __init__(self, height: int, title: str, text: str) -> None:
        self._parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}"'
            f' viewBox="0 0 {WIDTH} {height}" role="img" aria-labelledby="title text">',
            f'<title id="title">{title}</title>',
            f'<desc id="text">{text}</desc>',
            f'<g font-family="{FONT}" font-size="20" fill="{GREY}">',
        ]

    def __str__(self) -> str:
        return "\n".join([*self._parts, "</g>", "</svg>", ""])

    def add(self, tag: str, content: str = "", **attributes: object) -> None:
        named = {key.rstrip("_").replace("_", "-"): number(v) for key, v in attributes.items()}
        inside = " ".join(f'{key}="{value}"' for key, value in named.items())
        self._parts.append(
            f"<{tag} {inside}>{content}</{tag}>" if content else f"<{tag} {inside}/>"
        )

    def text(self, x: float, y: float, words: str, **how: object) -> None:
        self.add("text", words, x=x, y=y, **how)

    def line(self, a: Spot, b: Spot, stroke: str = GREY, **how: object) -> None:
        self.add("line", x1=a[0], y1=a[1], x2=b[0], y2=b[1], stroke=stroke, **how)

    def box(self, x: float, y: float, width: float, height: float, **how: object) -> None:
        self.add("rect", x=x, y=y, width=width, height=height, **how)

    def path(self, spots: Iterable[Spot], **how: object) -> None:
        self.add("path", d="M" + "L".join(f"{number(x)} {number(y)}" for x, y in spots), **how)

    # What is what

    def idle(self, at: Spot) -> None:
        self.add("circle", cx=at[0], cy=at[1], r=5, fill=GREY, opacity=".55")

    def seen(self, at: Spot) -> None:
        self.add("circle", cx=at[0], cy=at[1], r=6, fill=BLUE)

    def near(self, at: Spot) -> None:
        self.seen(at)
        self.add("circle", cx=at[0], cy=at[1], r=11, fill="none", stroke=RED, stroke_width=3)

    def fresh(self, at: Spot) -> None:
        """The new decision."""
        self.box(at[0] - 7, at[1] - 7, 14, 14, fill=ORANGE)
        self.add("circle", cx=at[0], cy=at[1], r=15, fill="none", stroke=GREY, stroke_width=2.5)

    def cell(self, x: float, y: float, width: float, height: float, shade: str) -> None:
        how = {"fill": BLUE, "fill_opacity": shade, "stroke": GREY, "stroke_width": 1.5}
        self.box(x, y, width, height, **how)

    def arrow(self, start: float, end: float, y: float) -> None:
        self.line((start, y), (end, y), stroke_width=3)
        head = [(end - 9, y - 9), (end, y), (end - 9, y + 9)]
        self.path(head, fill="none", stroke=GREY, stroke_width=3)

    def ball(self, at: Spot, radius: float) -> None:
        how = {"fill": GREY, "fill_opacity": ".13", "stroke": GREY, "stroke_width": 2.5}
        self.add("circle", cx=at[0], cy=at[1], r=radius, **how)
        edge = (at[0] - radius * math.sqrt(0.5), at[1] + radius * math.sqrt(0.5))
        self.line((at[0] - 11, at[1] + 11), edge, stroke_width=2, stroke_dasharray="4 4")
        self.epsilon((at[0] + edge[0]) / 2 + 2, (at[1] + edge[1]) / 2 + 24)

    def square(self, at: Spot, radius: float) -> None:
        """A ball of linf."""
        side = 2 * radius
        how = {"fill": GREY, "fill_opacity": ".13", "stroke": GREY, "stroke_width": 2.5}
        self.box(at[0] - radius, at[1] - radius, side, side, **how)
        self.line((at[0] - 15, at[1]), (at[0] - radius, at[1]), stroke_width=2, stroke_dasharray=4)
        self.epsilon(at[0] - radius / 2 - 12, at[1] + 20)

    def epsilon(self, x: float, y: float) -> None:
        self.text(x, y, "ε", font_style="italic", font_size=22)

    def mark(self, spots: list[Spot], looked: Collection[Spot], near: Collection[Spot]) -> None:
        for spot in spots:
            (self.near if spot in near else self.seen if spot in looked else self.idle)(spot)

    def legend(self, y: float, *items: tuple[float, Callable[[Spot], None], str]) -> None:
        for x, mark, words in items:
            mark((x, y - 7))
            self.text(x + 22, y, words)


def scatter(seed: int, count: int, x: Spot, y: Spot, gap: float, ball: Ball) -> list[Spot]:
    """Points at random in a box, none on top of another, of the ball's edge or of what is in it."""
    new, radius = ball
    label = (new[0] - radius * 0.35 + 6, new[1] + radius * 0.35 + 16)
    dice = Random(seed)
    spots: list[Spot] = []
    while len(spots) < count:
        spot = (dice.uniform(*x), dice.uniform(*y))
        clear = all(math.dist(spot, other) >= gap for other in (new, label, *spots))
        if clear and abs(math.dist(spot, new) - radius) >= 8:
            spots.append(spot)
    return spots


def brute() -> Picture:
    new, radius = (290.0, 160.0), 92.0
    spots = scatter(3, 64, (16, 584), (16, 300), 27, (new, radius))
    near = [spot for spot in spots if math.dist(spot, new) <= radius]
    picture = Picture(
        350,
        "Brute force: every past input is compared",
        f"A new decision, and a line from it to each of {len(spots)} past ones: all are compared."
        f" {len(near)} lie within epsilon.",
    )
    for spot in spots:
        picture.line(new, spot, opacity=".3")
    picture.ball(new, radius)
    picture.mark(spots, spots, near)
    picture.fresh(new)
    picture.legend(
        338,
        (22, picture.fresh, "the new one"),
        (200, picture.seen, f"compared: all {len(spots)}"),
        (430, picture.near, f"near: {len(near)}"),
    )
    return picture


Cell = list[float]  # left, top, right, bottom


def cells_of(spots: list[Spot], cell: Cell) -> list[tuple[Cell, list[Spot]]]:
    """Halved where the points lie widest, as SciPy does without balancing; at most four a leaf."""
    if len(spots) <= 4:
        return [(cell, spots)]
    lows, highs = ([pick(s[k] for s in spots) for k in (0, 1)] for pick in (min, max))
    axis = 0 if highs[0] - lows[0] >= highs[1] - lows[1] else 1
    middle = (lows[axis] + highs[axis]) / 2
    left, right = [*cell], [*cell]
    left[axis + 2] = right[axis] = middle
    return [
        *cells_of([spot for spot in spots if spot[axis] < middle], left),
        *cells_of([spot for spot in spots if spot[axis] >= middle], right),
    ]


def kdtree() -> Picture:
    new, radius = (236.0, 140.0), 62.0
    spots = scatter(1086, 62, (24, 576), (24, 276), 26, (new, radius))
    cells = cells_of(spots, [12, 12, 588, 288])
    visited = [
        (cell, inside)
        for cell, inside in cells
        if math.dist(new, (min(max(new[0], cell[0]), cell[2]), min(max(new[1], cell[1]), cell[3])))
        <= radius
    ]
    looked = [spot for _, inside in visited for spot in inside]
    near = [spot for spot in looked if math.dist(spot, new) <= radius]
    assert len(near) == sum(math.dist(spot, new) <= radius for spot in spots)
    picture = Picture(
        484,
        "A k-d tree, and the rows that came since it was built",
        f"Past inputs in rectangles of at most four. The ball around a new decision meets"
        f" {len(visited)} of {len(cells)} rectangles, shaded; only their {len(looked)} points are"
        f" compared, and {len(near)} are near. Below, the history as a bar: the long past is in the"
        " tree, the latest rows are scanned, and after tau of them the tree is built anew.",
    )
    for cell, inside in cells:
        x, y, right, bottom = cell
        shade = ".16" if (cell, inside) in visited else "0"
        picture.cell(x, y, right - x, bottom - y, shade)
    picture.ball(new, radius)
    picture.mark(spots, looked, near)
    picture.fresh(new)
    picture.legend(
        320,
        (26, picture.idle, "not looked at"),
        (226, picture.seen, f"compared: {len(looked)}"),
        (430, picture.near, f"near: {len(near)}"),
    )
    top, start, pitch, tau, since = 392, 346.0, 20, 12, 9
    picture.text(12, top - 12, "the long past: in the tree", font_weight=600)
    picture.text(start, top - 12, "since then: scanned", font_weight=600, fill=BLUE)
    how = {"fill": GREY, "fill_opacity": ".25", "stroke": GREY, "stroke_width": 1.5}
    picture.box(12, top, start - 20, 34, **how)
    for k in range(tau):
        fill = BLUE if k < since else "none"
        how = {"fill": fill, "stroke": BLUE, "stroke_width": 1.5}
        picture.box(start + k * pitch, top, pitch - 4, 34, **how)
    picture.fresh((start + since * pitch + 8, top + 17))
    brace = top + 46
    end = start + tau * pitch - 4
    under = [(start, brace - 6), (start, brace), (end, brace), (end, brace - 6)]
    picture.path(under, fill="none", stroke=GREY, stroke_width=1.5)
    picture.text(end, brace + 24, "after τ rows it is built anew", text_anchor="end")
    return picture


def snn() -> Picture:
    dice = Random(5)
    turn = math.radians(-20)
    along, across = (math.cos(turn), math.sin(turn)), (-math.sin(turn), math.cos(turn))
    middle, new, radius = (300.0, 158.0), (338.0, 150.0), 50.0
    spots: list[Spot] = []
    while len(spots) < 64:
        a, b = dice.uniform(-288, 288), dice.gauss(0, 36)
        spot = tuple(middle[k] + a * along[k] + b * across[k] for k in (0, 1))
        if (
            18 < spot[0] < 582
            and 24 < spot[1] < 292
            and math.dist(spot, new) > 26
            and all(math.dist(spot, other) > 24 for other in spots)
        ):
            spots.append((spot[0], spot[1]))
    mean = tuple(sum(spot[k] for spot in spots) / len(spots) for k in (0, 1))
    xx, yy, xy = (
        sum((s[i] - mean[i]) * (s[j] - mean[j]) for s in spots) for i, j in ((0, 0), (1, 1), (0, 1))
    )
    angle = 0.5 * math.atan2(2 * xy, xx - yy)  # of the first principal direction
    first = (math.cos(angle), math.sin(angle))

    def key(spot: Spot) -> float:
        return (spot[0] - mean[0]) * first[0] + (spot[1] - mean[1]) * first[1]

    here = key(new)
    window = [spot for spot in spots if abs(key(spot) - here) <= radius]
    near = [spot for spot in window if math.dist(spot, new) <= radius]
    assert len(near) == sum(math.dist(spot, new) <= radius for spot in spots)
    picture = Picture(
        456,
        "SNN: a window along the direction of largest variance",
        f"A long cloud of points with a line through it, the first principal direction. A band"
        f" across it, epsilon to either side of the new decision, holds {len(window)} of"
        f" {len(spots)} points; {len(near)} of them are near. Below, the projections in order, and"
        " the window.",
    )

    def at(key: float, off: float) -> Spot:
        return (
            mean[0] + key * first[0] - off * first[1],
            mean[1] + key * first[1] + off * first[0],
        )

    band = [at(here + a * radius, b * 132) for a, b in ((-1, -1), (1, -1), (1, 1), (-1, 1))]
    picture.path([*band, band[0]], fill=BLUE, fill_opacity=".16", stroke=BLUE, stroke_width=1.5)
    picture.line(at(-296, 0), at(296, 0), stroke_width=2, stroke_dasharray="8 5")
    picture.ball(new, radius)
    picture.mark(spots, window, near)
    picture.fresh(new)
    picture.text(594, 236, "first principal", text_anchor="end")
    picture.text(594, 260, "direction", text_anchor="end")
    top = 346
    picture.text(12, top - 14, "sorted projections", font_weight=600)
    picture.text(300 + here - radius, top + 64, "window", fill=BLUE, font_weight=600)
    picture.box(300 + here - radius, top, 2 * radius, 42, fill=BLUE, fill_opacity=".16")
    for spot in spots:
        x = 300 + key(spot)
        stroke = RED if spot in near else BLUE if spot in window else GREY
        picture.line((x, top + 6), (x, top + 36), stroke=stroke, stroke_width=3)
    picture.line((6, top + 21), (594, top + 21), opacity=".6")
    picture.legend(
        top + 102,
        (22, picture.idle, "not looked at"),
        (216, picture.seen, f"compared: {len(window)}"),
        (430, picture.near, f"near: {len(near)}"),
    )
    return picture


Bits = tuple[bool, ...]
Node = tuple[int, object, object]  # a variable, and where 0 and 1 lead
NAMES = ("x₁", "x₀", "y₁", "y₀")
APART = (0, 100, 50, 150)  # nodes of a level


def diagram_of(seen: set[Bits], level: int = 0) -> object:
    """The reduced ordered decision diagram of a set of bit vectors: True, None, or a node."""
    if not seen or level == len(NAMES):
        return bool(seen) or None
    low, high = (
        diagram_of({bits for bits in seen if bits[level] == way}, level + 1)
        for way in (False, True)
    )
    return low if low == high else (level, low, high)


def nodes_of(diagram: object) -> list[Node]:
    """Each node once, from the top."""
    found: list[Node] = []
    todo = [diagram]
    for node in todo:
        if isinstance(node, tuple) and node not in found:
            found.append(node)
            todo += node[1:]
    return sorted(found, key=lambda node: node[0])


def walked(diagram: object, vectors: set[Bits]) -> set[tuple[Node, bool]]:
    """The edges on the way to some bit vectors."""
    edges = set()
    for bits in vectors:
        node = diagram
        while isinstance(node, tuple):
            edges.add((node, bits[node[0]]))
            node = node[1 + bits[node[0]]]
    return edges


def bits_of(cell: tuple[int, int]) -> Bits:
    return tuple(bool(label >> bit & 1) for label in cell for bit in (1, 0))


def bdd() -> Picture:
    side, corner = 78, 12
    new, radius = (corner + 1.62 * side, corner + 1.4 * side), side / (1 + 2**-10)
    rights = (1.3, 2.3, 2.82, 2.15, 1.2, 3.4, 3.75, 3.3, 0.25, 0.7, 3.55, 2.7)
    downs = (1.75, 1.2, 1.3, 1.72, 0.3, 3.2, 3.6, 2.35, 3.4, 3.75, 0.5, 2.65)
    spots = [(corner + x * side, corner + y * side) for x, y in zip(rights, downs, strict=True)]

    def cell(spot: Spot) -> tuple[int, int]:
        return int((spot[0] - corner) // side), int((spot[1] - corner) // side)

    mine = cell(new)
    cells = list(product(range(4), repeat=2))
    close = {c for c in cells if abs(c[0] - mine[0]) <= 1 and abs(c[1] - mine[1]) <= 1}
    seen = {cell(spot) for spot in spots}
    looked = [spot for spot in spots if cell(spot) in close]
    near = [s for s in spots if max(abs(s[0] - new[0]), abs(s[1] - new[1])) <= radius]
    assert set(near) <= set(looked)
    picture = Picture(
        462,
        "Cells, and a decision diagram of those seen",
        f"Left, four times four cells a little wider than epsilon. The new decision's own cell and"
        f" the eight beside it are shaded; {len(looked)} points lie there and {len(near)} are near."
        f" Right, the decision diagram of the {len(seen)} cells seen, over two bits for each"
        f" coordinate; the paths that lead to shaded cells, {len(seen & close)} of them, are blue.",
    )
    for i, j in cells:
        shade = ".3" if (i, j) == mine else ".16" if (i, j) in close else "0"
        picture.cell(corner + i * side, corner + j * side, side, side, shade)
    for k in range(4):
        middle, end = corner + (k + 0.5) * side, corner + 4 * side
        picture.text(middle, end + 24, f"x {k:02b}", text_anchor="middle")
        picture.text(end + 8, middle + 7, f"y {k:02b}")
    picture.square(new, radius)
    picture.mark(spots, looked, near)
    picture.fresh(new)
    draw_diagram(
        picture, diagram_of({bits_of(c) for c in seen}), {bits_of(c) for c in seen & close}
    )
    picture.text(12, 409, "no line: never seen")
    for x, words, dash in ((322, "bit is 0", "6 5"), (460, "bit is 1", "none")):
        picture.line((x, 402), (x + 40, 402), stroke_width=2, stroke_dasharray=dash)
        picture.text(x + 48, 409, words)
    picture.legend(
        446,
        (26, picture.idle, "not looked at"),
        (226, picture.seen, f"looked at: {len(looked)}"),
        (430, picture.near, f"near: {len(near)}"),
    )
    return picture


def draw_diagram(picture: Picture, diagram: object, marked: set[Bits]) -> None:
    """Level under level; the paths to the marked vectors in blue."""
    nodes = nodes_of(diagram)
    places: dict[object, Spot] = {True: (490.0, 332.0)}
    for level, apart in enumerate(APART):
        here = [node for node in nodes if node[0] == level]
        for k, node in enumerate(here):
            places[node] = (490 + apart * (k - (len(here) - 1) / 2), 34.0 + 74 * level)
    kept = walked(diagram, marked)
    for node, bit in product(nodes, (False, True)):
        if node[1 + bit] is not None:
            blue = (node, bit) in kept
            how = {"stroke_width": 3.5 if blue else 2, "stroke_dasharray": "none" if bit else "6 5"}
            ends = places[node], places[node[1 + bit]]
            picture.line(*ends, stroke=BLUE if blue else GREY, **how)
    for node in nodes:
        x, y = places[node]
        picture.add("circle", cx=x, cy=y, r=19, fill=GREY)
        picture.text(x, y + 6, NAMES[node[0]], text_anchor="middle", fill="#fff", font_size=18)
    x, y = places[True]
    picture.box(x - 36, y - 17, 72, 34, rx=6, fill=BLUE)
    picture.text(x, y + 7, "seen", text_anchor="middle", fill="#fff")


def split() -> Picture:
    new, radius = (300.0, 150.0), 62.0
    spots = scatter(11, 44, (76, 580), (18, 290), 30, (new, radius))
    in_a = [s for s in spots if abs(s[0] - new[0]) <= radius]
    in_b = [s for s in spots if abs(s[1] - new[1]) <= radius]
    both = [s for s in in_a if s in in_b]
    picture = Picture(
        436,
        "Two parts of the coordinates, and what both propose",
        f"Points with part A of their coordinates to the right and part B upwards. {len(in_a)} lie"
        f" in the strip around the new decision's A, {len(in_b)} in that around its B, and"
        f" {len(both)} in both strips: these are near.",
    )
    low, edge = 306, 60
    picture.box(new[0] - radius, 6, 2 * radius, low - 6, fill=BLUE, fill_opacity=".18")
    picture.box(edge, new[1] - radius, 594 - edge, 2 * radius, fill=ORANGE, fill_opacity=".18")
    picture.path([(edge, 6), (edge, low), (594, low)], fill="none", stroke=GREY, stroke_width=2)
    picture.text(24, new[1] + 7, "B", font_weight=600, fill=ORANGE, text_anchor="middle")
    picture.text(new[0], low + 44, "A", font_weight=600, fill=BLUE, text_anchor="middle")
    for spot in spots:
        x, y = spot
        picture.line(
            (x, low + 4), (x, low + 18), stroke=BLUE if spot in in_a else GREY, stroke_width=3
        )
        stroke = ORANGE if spot in in_b else GREY
        picture.line((edge - 4, y), (edge - 18, y), stroke=stroke, stroke_width=3)
    how = {"fill": "none", "stroke": GREY, "stroke_width": 2.5}
    picture.box(new[0] - radius, new[1] - radius, 2 * radius, 2 * radius, **how)

    def only_b(at: Spot) -> None:
        picture.add("circle", cx=at[0], cy=at[1], r=6, fill=ORANGE)

    for spot in spots:
        if spot in both:
            picture.near(spot)
        elif spot in in_a:
            picture.seen(spot)
        elif spot in in_b:
            only_b(spot)
        else:
            picture.idle(spot)
    picture.fresh(new)
    picture.legend(
        386,
        (26, picture.seen, f"A proposes {len(in_a)}"),
        (226, only_b, f"B proposes {len(in_b)}"),
        (430, picture.near, f"both: {len(both)}"),
    )
    picture.text(12, 422, "Near in every coordinate is near in every part.")
    return picture


# By bucket: where it hangs, how full it is, between what its outputs lie.
BUCKETS = (
    ("left", 22, (0.1, 0.9)),
    ("halves", 16, (0.2, 0.9)),
    ("halves", 16, (0.15, 0.85)),
    ("right", 27, (0.66, 0.8)),
    ("right", 24, (0.64, 0.78)),
)


def live() -> Picture:
    dice = Random(2)
    z, delta = 0.72, 0.1
    outputs = [[dice.uniform(*between) for _ in range(count)] for _, count, between in BUCKETS]

    def said(*which: int) -> str:
        values = [value for k in which for value in outputs[k]]
        return f"{min(values):.2f} to {max(values):.2f}"

    assert all(abs(value - z) <= delta for value in outputs[3] + outputs[4])
    picture = Picture(
        668,
        "The live tree: buckets, ranges of outputs, and codes modulo 256",
        f"A tree whose leaves are buckets of points. The new decision has output {z}, and delta is"
        f" {delta}. One subtree is skipped because all its outputs, {said(3, 4)}, agree with that;"
        " one bucket because it lies out of reach; a full bucket splits in two. Below, the ring"
        " of 256 codes of one coordinate, and the window that near points lie in.",
    )
    picture.fresh((24, 28))
    picture.text(48, 35, f"output {z}, δ = {delta}")
    draw_buckets(picture)
    picture.text(320, 84, f"outputs {said(0, 1, 2, 3, 4)}", font_size=18)
    picture.text(148, 142, said(0, 1, 2), text_anchor="end", font_size=18)
    picture.text(500, 142, said(3, 4), font_size=18, text_anchor="middle")
    draw_codes(picture, (140.0, 556.0))
    return picture


def draw_buckets(picture: Picture) -> None:
    xs, row = (62.0, 182.0, 302.0, 422.0, 540.0), 300.0
    root = (300.0, 82.0)
    spots = {"left": (152.0, 160.0), "right": (481.0, 160.0), "halves": (242.0, 238.0)}
    edges = [(root, spots["left"], True), (root, spots["right"], False)]
    edges.append((spots["left"], spots["halves"], True))
    for x, (name, _, _) in zip(xs, BUCKETS, strict=True):
        edges.append((spots[name], (x, row), name == "halves"))
    for a, b, visited in edges:
        dash = "5 5" if a == spots["right"] else "none"
        how = {"stroke_width": 3 if visited else 2, "stroke_dasharray": dash}
        picture.line(a, b, stroke=BLUE if visited else GREY, **how)
    for x, y in (root, *spots.values()):
        fill = GREY if (x, y) == spots["right"] else BLUE
        picture.add("circle", cx=x, cy=y, r=11, fill=fill)
    for x, (name, count, _) in zip(xs, BUCKETS, strict=True):
        colour = BLUE if name == "halves" else GREY
        how = {"fill": colour, "fill_opacity": ".1", "stroke": colour, "stroke_width": 2}
        picture.box(x - 46, row, 92, 58, rx=6, **how)
        for k in range(count):
            at = {"cx": x - 35 + 10 * (k % 8), "cy": row + 11 + 12 * (k // 8)}
            picture.add("circle", **at, r=3.5, fill=colour, opacity=1 if colour == BLUE else ".5")
    for x, colour, words in (
        (62, GREY, ("out of", "reach")),
        (242, BLUE, ("was full:", "split in two")),
        (481, GREY, ("all agree with it:", "skipped")),
    ):
        for k, line in enumerate(words):
            how = {"fill": colour, "font_weight": 600, "text_anchor": "middle"}
            picture.text(x, row + 84 + 24 * k, line, **how)


def draw_codes(picture: Picture, centre: Spot) -> None:
    """The ring of codes of a coordinate; linf has its radius 16 units long, so a window of 17."""
    code, window, around = 249, 17, 96.0

    def at(code: float, radius: float = around) -> Spot:
        turn = 2 * math.pi * code / 256 - math.pi / 2
        return (centre[0] + radius * math.cos(turn), centre[1] + radius * math.sin(turn))

    ring = {"fill": "none", "stroke": GREY, "stroke_width": 2}
    picture.add("circle", cx=centre[0], cy=centre[1], r=around, **ring)
    arc = [at(code - window + k / 2) for k in range(4 * window + 1)]
    picture.path(arc, fill="none", stroke=BLUE, stroke_width=22, stroke_opacity=".3")
    for mark in (0, 64, 128, 192):
        x, y = at(mark, around - 26)
        picture.text(x, y + 7, str(mark), text_anchor="middle", font_size=18)
    for other in (4, 239, 22, 47, 80, 101, 118, 150, 171, 186, 207, 222):
        gap = (other - code) % 256
        (picture.seen if min(gap, 256 - gap) <= window else picture.idle)(at(other))
    picture.fresh(at(code))
    x, y = 276, centre[1] - 48
    picture.text(x, y, "codes of one coordinate", font_weight=600)
    picture.text(x, y + 30, "floor(position · scale) mod 256")
    picture.legend(
        y + 66,
        (x + 6, picture.seen, "in the window: may be near"),
    )
    picture.legend(y + 96, (x + 6, picture.idle, "outside: cannot be near"))


COORDINATES, CHECK = 32, 16  # rotated ones, and how many between two looks


def flat() -> Picture:
    dice = Random(8)
    picture = Picture(
        548,
        "A flat scan: rotated first, then abandoned early",
        "Above, a slanted cloud of points, and the same cloud rotated so that it varies most along"
        " the first axis. Below, sums of squared gaps to the new decision, coordinate by"
        " coordinate. In one block all sums have passed epsilon squared after sixteen coordinates:"
        " the block is abandoned. In another, one sum stays below to the end: that row decides.",
    )
    cloud = [(max(-126.0, min(126.0, dice.gauss(0, 62))), dice.gauss(0, 15)) for _ in range(60)]
    for x, turn in ((145.0, math.radians(-35)), (455.0, 0.0)):
        along, across = (math.cos(turn), math.sin(turn)), (-math.sin(turn), math.cos(turn))
        for a, b in cloud:
            picture.idle((x + a * along[0] + b * across[0], 116 + a * along[1] + b * across[1]))
        for long, way, colour in ((130, along, BLUE), (58, across, ORANGE)):
            ends = [(x + s * long * way[0], 116 + s * long * way[1]) for s in (-1, 1)]
            picture.line(*ends, stroke=colour, stroke_width=3)
    picture.text(26, 26, "as they came", font_weight=600)
    picture.text(334, 26, "rotated", font_weight=600)
    picture.arrow(278, 312, 116)
    top, tall = 262.0, 190.0
    picture.text(26, top - 14, "sums of squared gaps, direction by direction")
    abandoned = draw_block(picture, (26, top, tall), dice, (0.34, 0.4, 0.46, 0.55, 0.66, 0.8))
    to_the_end = draw_block(picture, (334, top, tall), dice, (0.12, 0.36, 0.44, 0.5, 0.62, 0.75))
    assert abandoned == (CHECK, 0)
    assert to_the_end == (COORDINATES, 1)
    for x, words, outcome in (
        (26, f"after {CHECK}: all above", "block abandoned"),
        (334, "one stays below", "its row decides"),
    ):
        picture.text(x, top + tall + 32, words)
        picture.text(x, top + tall + 60, outcome, font_weight=600)
    return picture


def draw_block(
    picture: Picture, frame: tuple[float, float, float], dice: Random, scales: tuple[float, ...]
) -> tuple[int, int]:
    """Partial sums of a block's points; where it was left, and with how many points below."""
    x, top, tall = frame
    bottom, across, most = top + tall, 240, 2.4  # times epsilon squared, at the top
    lines = [  # the first directions vary most
        list(accumulate(scale * dice.uniform(0.2, 0.8) * 0.9**k for k in range(COORDINATES)))
        for scale in scales
    ]
    end = next(
        (k for k in range(CHECK, COORDINATES, CHECK) if all(line[k - 1] > 1 for line in lines)),
        COORDINATES,
    )
    left = [line for line in lines if line[end - 1] <= 1]
    pitch = across / COORDINATES
    picture.box(x + end * pitch, top, across - end * pitch, tall, fill=GREY, fill_opacity=".13")
    frame_of = [(x, top), (x, bottom), (x + across, bottom)]
    picture.path(frame_of, fill="none", stroke=GREY, stroke_width=2)
    limit = bottom - tall / most
    dashed = {"stroke": RED, "stroke_width": 2, "stroke_dasharray": "6 5"}
    picture.line((x, limit), (x + across, limit), **dashed)
    picture.text(x + across - 26, limit - 8, "ε²", fill=RED, font_style="italic")
    for line in lines:
        steps = [(x, bottom)]
        for k, value in enumerate(line[:end], 1):
            before = (bottom - steps[-1][1]) * most / tall
            part = min(1.0, (most - before) / (value - before))
            steps.append((x + (k - 1 + part) * pitch, bottom - min(value, most) * tall / most))
            if part < 1:
                break
        how = {"stroke": BLUE, "stroke_width": 3} if line in left else {"stroke": GREY}
        picture.path(steps, fill="none", stroke_linejoin="round", **how)
        if line in left:
            picture.near(steps[-1])
    return end, len(left)


def your_own() -> Picture:
    picture = Picture(
        250,
        "An index proposes, one comparison decides",
        "Three boxes in a row: your index answers candidates, too many allowed and none missing;"
        " the kernel compares each with distance at most reach and output distance above delta;"
        " what is left are the witnesses.",
    )
    boxes = [
        (8, BLUE, "your index", ("candidates:", "none missing,", "more allowed")),
        (212, GREY, "the kernel", ("near, and", "different?", "one comparison")),
        (416, RED, "witnesses", ("exactly those,", "whatever the", "index")),
    ]
    for x, colour, head, lines in boxes:
        how = {"fill": colour, "fill_opacity": ".1", "stroke": colour, "stroke_width": 2.5}
        picture.box(x, 30, 176, 160, rx=10, **how)
        picture.text(x + 88, 64, head, text_anchor="middle", font_weight=600, fill=colour)
        for k, words in enumerate(lines):
            picture.text(x + 88, 104 + 30 * k, words, text_anchor="middle")
    picture.arrow(188, 208, 110)
    picture.arrow(392, 412, 110)
    picture.text(300, 230, "points come with the radius at 1", text_anchor="middle")
    return picture


PICTURES = {
    "bdd": bdd,
    "brute": brute,
    "flat": flat,
    "kdtree": kdtree,
    "live": live,
    "snn": snn,
    "split": split,
    "your-own": your_own,
}
"""By name of the page."""

if __name__ == "__main__":
    for name, draw in PICTURES.items():
        Path(__file__).with_name(f"{name}.svg").write_text(str(draw()), encoding="utf-8")
