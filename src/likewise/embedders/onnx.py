"""Any ONNX model, by ONNX Runtime; what is done before and after it is declared.

Pictures: brought to a size, scaled, laid out (pictures.py), as float32 or as what the model takes.
Texts: a tokenizer.json makes numbers of the words; the model's answer, a vector for each word, is
pooled. An answer that is one vector for each item is taken as it comes.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from likewise.embedders.declaration import DeclaredEmbedder
from likewise.embedders.embedding_model import (
    FIXED_SENTENCE,
    InputKind,
    digest_of,
    fixed_picture,
    require_package,
    require_regular_file,
)
from likewise.embedders.pictures import PicturePreprocessor
from likewise.errors import BadRule

_TYPES = {
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(float16)": np.float16,
    "tensor(uint8)": np.uint8,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
}


class Onnx:
    def __init__(self, declared: DeclaredEmbedder) -> None:
        require_package("onnxruntime", declared.text, "onnx")
        import onnxruntime

        self._declared = declared
        path = Path(declared.location)
        made_of = [digest_of(path)]
        try:
            self._session = onnxruntime.InferenceSession(
                str(path), providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # the runtime has errors of its own, without a common class
            raise BadRule(
                f"embed is {declared.text!r}, which cannot be loaded: {error}", setting="embed"
            ) from None
        self._inputs = self._session.get_inputs()
        outputs = [one.name for one in self._session.get_outputs()]
        self._output = declared.output or outputs[0]
        if self._output not in outputs:
            raise BadRule(
                f"output is {self._output!r}; the model has {', '.join(outputs)}", setting="output"
            )
        self.input_kind: InputKind = "pictures"
        self._prepare = PicturePreprocessor(declared)
        if declared.tokenizer is not None:
            self.input_kind = "texts"
            self._tokenizer = _tokenizer(declared)
            made_of.append(digest_of(Path(declared.tokenizer)))
        self.identity = " ".join(["onnx", *made_of]) + declared.preprocessing_text
        fixed = self._inputs[0].shape[0] if self._inputs[0].shape else None
        if isinstance(fixed, int) and fixed != 1:
            raise BadRule(
                f"embed is {declared.text!r}, a model for batches of exactly {fixed}; expected one"
                " for batches of any size, or of 1: export it with a dynamic first dimension",
                setting="embed",
            )
        self._one_by_one = fixed == 1

    def embed(self, batch: Sequence[Any]) -> Any:
        if self._one_by_one and len(batch) > 1:
            return np.concatenate([self.embed([one]) for one in batch])
        if self.input_kind == "texts":
            return self._of_texts(batch)
        wanted = self._inputs[0]
        given = self._prepare.preprocess_batch(batch).astype(_TYPES.get(wanted.type, np.float32))
        return self._run({wanted.name: given})

    def _run(self, given: dict[str, npt.NDArray[Any]]) -> npt.NDArray[Any]:
        (answer,) = self._session.run([self._output], given)
        return np.asarray(answer)

    def _of_texts(self, batch: Sequence[str]) -> npt.NDArray[Any]:
        encoded = self._tokenizer.encode_batch(list(batch))
        mask = np.array([one.attention_mask for one in encoded], np.int64)
        known = {
            "input_ids": np.array([one.ids for one in encoded], np.int64),
            "attention_mask": mask,
            "token_type_ids": np.array([one.type_ids for one in encoded], np.int64),
        }
        strange = [one.name for one in self._inputs if one.name not in known]
        if strange:
            raise ValueError(f"the model wants {', '.join(strange)}; known are {', '.join(known)}")
        given = {
            one.name: known[one.name].astype(_TYPES.get(one.type, np.int64)) for one in self._inputs
        }
        answer = self._run(given)
        if answer.ndim != 3:
            return answer
        if self._declared.pooling is None:
            raise ValueError(
                "the model answers with a vector for each word; declare pooling, mean or first"
            )
        if self._declared.pooling == "first":
            return answer[:, 0]
        words = mask[:, :, None].astype(answer.dtype)
        pooled: npt.NDArray[Any] = (answer * words).sum(axis=1) / words.sum(axis=1).clip(1)
        return pooled

    def make_probe(self) -> Any:
        if self.input_kind == "texts":
            return FIXED_SENTENCE
        declared = self._declared
        if declared.shape is not None:
            return fixed_picture(declared.shape)
        fixed = self._inputs[0].shape[1:]
        if not fixed or not all(isinstance(one, int) and one > 0 for one in fixed):
            return None if declared.size is None else fixed_picture((*declared.size, 3))
        if declared.layout == "channels first" and len(fixed) == 3:
            fixed = [*fixed[1:], fixed[0]]
        return fixed_picture(fixed)


def _tokenizer(declared: DeclaredEmbedder) -> Any:
    require_package("tokenizers", declared.text, "onnx")
    from tokenizers import Tokenizer

    assert declared.tokenizer is not None
    require_regular_file(Path(declared.tokenizer))
    try:
        tokenizer = Tokenizer.from_file(declared.tokenizer)
    except Exception as error:  # a bare Exception is what it raises
        raise BadRule(f"tokenizer {declared.tokenizer!r} cannot be read: {error}") from None
    if tokenizer.padding is None:
        tokenizer.enable_padding()
    return tokenizer
