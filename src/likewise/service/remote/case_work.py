"""What people do with decisions that are there: erase, review, overrule; and `flush`."""

from functools import partial
from typing import Any

from likewise.service.hosted import Hosted
from likewise.service.remote.deciding import Fields, told_verdict


async def forget(hosted: Hosted, fields: Fields) -> int:
    return await hosted.do(partial(hosted.monitor.forget, **fields))


async def erase(hosted: Hosted, fields: Fields) -> Any:
    erasure = await hosted.do(partial(hosted.monitor.erase, **fields))
    return erasure.rows, erasure.complete


async def review(hosted: Hosted, fields: Fields) -> None:
    await hosted.do(partial(hosted.monitor.review, **fields))


async def truth(hosted: Hosted, fields: Fields) -> None:
    await hosted.do(partial(hosted.monitor.truth, **fields))


async def supersede(hosted: Hosted, fields: Fields) -> Fields:
    asked = fields.pop("witnesses", None)
    verdict = await hosted.do(partial(hosted.monitor.supersede, **fields))
    return told_verdict(hosted, {"witnesses": asked}, verdict)


async def flush(hosted: Hosted, _: Fields) -> None:
    await hosted.do(hosted.monitor.flush)
