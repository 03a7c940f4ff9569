"""What a client looks at: the monitor, its past, its index, its ledger.

Bound: rows that are looked at together, `Limits.batch_rows`, and `Limits.body_bytes`.
"""

from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np

from likewise.service.hosted import Hosted
from likewise.service.refusals import Refusal
from likewise.service.remote.deciding import Fields


async def state(hosted: Hosted, _: Fields) -> Fields:
    monitor = hosted.monitor

    def told() -> Fields:
        return {
            "rule": monitor.rule.to_toml(),
            "rows": monitor.rows,
            "remembered": len(monitor),
            "missing": monitor.missing,
            "durable": monitor.durable,
            "comparable": monitor.comparable,
        }

    return await hosted.aside(told)


async def positions(hosted: Hosted, _: Fields) -> Fields:
    return await hosted.do(lambda: hosted.monitor.positions)


_LOOKS = frozenset(
    {
        "values",
        "inputs",
        "points",
        "outputs",
        "keys",
        "models",
        "model_codes",
        "row_of",
        "alive",
        "codes",
        "numbers",
        "span",
        "like_models",
    }
)


async def past(hosted: Hosted, fields: Fields) -> Any:
    look, limits = fields.pop("look", None), hosted.limits
    if look not in _LOOKS:
        raise Refusal(404, f"a past cannot be asked for {look!r}.")
    if look == "like_models":
        fields["rows"] = range(*fields["rows"])
    elif np.size(fields.get("rows", ())) > limits.batch_rows:
        raise Refusal(413, f"at most {limits.batch_rows} rows can be looked at together.")
    past = hosted.monitor.past

    def looked() -> Any:
        if look in ("inputs", "points"):
            rows = np.atleast_1d(fields["rows"])
            size = len(rows) * (past.inputs(rows[:1]).nbytes if len(rows) else 0)
            if size > limits.body_bytes and len(rows) > 1:
                raise Refusal(413, f"these rows take more than {limits.body_bytes} bytes.")
        answer = getattr(past, look)(**fields)
        if look == "points":
            return {"vectors": answer.vectors, "left_open": answer.left_open} | {
                "rule": answer.rule.to_toml()
            }
        if hasattr(answer, "_asdict"):
            return dict(answer._asdict())
        return answer

    return await hosted.aside(looked)


async def explain(hosted: Hosted, _: Fields) -> Fields:
    return await hosted.aside(lambda: asdict(hosted.monitor.explain()))


async def stats(hosted: Hosted, fields: Fields) -> Fields:
    return await hosted.aside(lambda: asdict(hosted.monitor.stats(**fields)))


async def head(hosted: Hosted, _: Fields) -> str:
    return await hosted.do(lambda: str(hosted.monitor.head()))


async def verify(hosted: Hosted, fields: Fields) -> Fields:
    found = await hosted.aside(partial(hosted.monitor.verify, **fields))
    return asdict(found) | {"head": None if found.head is None else str(found.head)}
