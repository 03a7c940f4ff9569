"""Add to verdicts what stands beside their witnesses: keys, models and the rows compared with."""

from dataclasses import replace
from typing import Any

from likewise.monitor.row_models import ModelNames, RowModels
from likewise.tables.array_types import Rows
from likewise.tables.keys import Keys
from likewise.verdict.context import ComparedRows, VerdictContext
from likewise.verdict.verdicts import Verdict, Verdicts


class VerdictAnnotator:
    """Adds the known keys and models to the verdicts of an engine."""

    def __init__(self, keys: Keys, models: RowModels) -> None:
        self._keys = keys
        self._models = models

    def annotate_one(
        self,
        row: int | None,
        verdict: Verdict,
        keys: list[Any] | None,
        models: ModelNames,
        compared: ComparedRows | None,
        **more: Any,
    ) -> Verdict:
        """Return the verdict with the decision's key and model, and those of its witnesses.

        row         the decision's row; None if it was only checked
        compared    the rows that it was compared with, where a ledger stores that
        more        further fields of `VerdictContext`
        """
        if keys is not None or self._keys:
            more["key"] = None if keys is None else keys[0]
            more["witness_keys"] = self._keys.keys_of(verdict.witnesses.rows)
        if models is not None or self._models:
            more["model"] = None if models is None else models[0]
            more["witness_models"] = self._models.names(verdict.witnesses.rows)
        context: VerdictContext = verdict.context._replace(over=compared, **more)
        return Verdict(row, verdict.witnesses, context)

    def annotate_many(
        self,
        verdicts: Verdicts,
        keys: list[Any] | None,
        models: ModelNames,
        firsts: Rows | None,
        absent: Rows | None,
    ) -> Verdicts:
        """Return the verdicts with the decisions' keys and models, and those of their witnesses.

        firsts, absent  the first row that each was compared with, and how many rows from there on
                        were erased, where a ledger stores that
        """
        more: dict[str, Any] = {}
        if absent is not None:
            more["firsts"], more["absent"] = firsts, absent
        if keys is not None or self._keys:
            more["keys"] = (None,) * len(verdicts) if keys is None else tuple(keys)
            more["witness_keys"] = self._keys.keys_of(verdicts.witnesses.rows)
        if self._models:
            more["models"] = (None,) * len(verdicts) if models is None else tuple(models)
            more["witness_models"] = self._models.names(verdicts.witnesses.rows)
        return replace(verdicts, **more) if more else verdicts
