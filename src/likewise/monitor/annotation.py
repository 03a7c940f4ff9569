"""What a verdict says beside its witnesses: keys, models, the rows that it was compared with."""

from dataclasses import replace
from typing import Any

from likewise.monitor.row_models import ModelNames, RowModels
from likewise.tables.keys import Keys
from likewise.tables.rows import Rows
from likewise.verdict.context import ComparedRows, VerdictContext
from likewise.verdict.verdicts import Verdict, Verdicts


class VerdictAnnotator:
    """Adds to verdicts of an engine what keys and models are known."""

    def __init__(self, keys: Keys, models: RowModels) -> None:
        self._keys = keys
        self._models = models

    def annotate_one(
        self,
        row: int | None,
        found: Verdict,
        keys: list[Any] | None,
        models: ModelNames,
        compared: ComparedRows | None,
        **more: Any,
    ) -> Verdict:
        """The verdict on a decision with this key and model."""
        if keys is not None or self._keys:
            more["key"] = None if keys is None else keys[0]
            more["witness_keys"] = self._keys.keys_of(found.witnesses.rows)
        if models is not None or self._models:
            more["model"] = None if models is None else models[0]
            more["witness_models"] = self._models.names(found.witnesses.rows)
        beside: VerdictContext = found.context._replace(over=compared, **more)
        return Verdict(row, found.witnesses, beside)

    def annotate_many(
        self,
        found: Verdicts,
        keys: list[Any] | None,
        models: ModelNames,
        firsts: Rows | None,
        absent: Rows | None,
    ) -> Verdicts:
        """The verdicts on decisions with these keys and models.

        firsts, absent  what each was compared with, where a ledger keeps that
        """
        more: dict[str, Any] = {}
        if absent is not None:
            more["firsts"], more["absent"] = firsts, absent
        if keys is not None or self._keys:
            more["keys"] = (None,) * len(found) if keys is None else tuple(keys)
            more["witness_keys"] = self._keys.keys_of(found.witnesses.rows)
        if self._models:
            more["models"] = (None,) * len(found) if models is None else tuple(models)
            more["witness_models"] = self._models.names(found.witnesses.rows)
        return replace(found, **more) if more else found
