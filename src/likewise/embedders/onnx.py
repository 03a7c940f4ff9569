"""Embeds with any ONNX model, by ONNX Runtime; the declaration says what happens before and after.

Pictures are resized, scaled and laid out (pictures.py), and get the type that the model takes.
Texts are tokenized by a tokenizer.json. An answer with a vector for each word is pooled.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from likewise.embedders.declaration import DeclaredEmbedder, embed_error
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
    """Runs an ONNX model."""

    def __init__(self, declared: DeclaredEmbedder) -> None:
        require_package("onnxruntime", declared.text, "onnx")
        import onnxruntime

        self._declared = declared
        path = Path(declared.location)
        digests = [digest_of(path)]
        try:
            self._session = onnxruntime.InferenceSession(
                str(path), providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # the errors of the runtime have no common class
            raise embed_error(declared.text, f", which cannot be loaded: {error}") from None
        self._inputs = self._session.get_inputs()
        outputs = [output.name for output in self._session.get_outputs()]
        self._output = declared.output or outputs[0]
        if self._output not in outputs:
            raise BadRule(
                f"output is {self._output!r}; the model has {', '.join(outputs)}", setting="output"
            )
        self.input_kind: InputKind = "pictures"
        self._prepare = PicturePreprocessor(declared)
        if declared.tokenizer is not None:
            self.input_kind = "texts"
            self._tokenizer = _load_tokenizer(declared)
            digests.append(digest_of(Path(declared.tokenizer)))
        self.identity = " ".join(["onnx", *digests]) + declared.preprocessing_text
        batch_size = self._inputs[0].shape[0] if self._inputs[0].shape else None
        if isinstance(batch_size, int) and batch_size != 1:
            raise embed_error(
                declared.text,
                f", a model for batches of exactly {batch_size}; expected one for batches of any"
                " size, or of 1: export it with a dynamic first dimension",
            )
        self._one_by_one = batch_size == 1

    def embed(self, batch: Sequence[Any]) -> Any:
        if self._one_by_one and len(batch) > 1:
            return np.concatenate([self.embed([item]) for item in batch])
        if self.input_kind == "texts":
            return self._embed_texts(batch)
        arrays = self._prepare.preprocess_batch(batch)
        first = self._inputs[0]
        return self._run({first.name: arrays.astype(_TYPES.get(first.type, np.float32))})

    def _run(self, arrays: dict[str, npt.NDArray[Any]]) -> npt.NDArray[Any]:
        (answer,) = self._session.run([self._output], arrays)
        return np.asarray(answer)

    def _embed_texts(self, batch: Sequence[str]) -> npt.NDArray[Any]:
        encoded = self._tokenizer.encode_batch(list(batch))
        mask = np.array([text.attention_mask for text in encoded], np.int64)
        arrays = {
            "input_ids": np.array([text.ids for text in encoded], np.int64),
            "attention_mask": mask,
            "token_type_ids": np.array([text.type_ids for text in encoded], np.int64),
        }
        unknown = [slot.name for slot in self._inputs if slot.name not in arrays]
        if unknown:
            raise ValueError(f"the model needs {', '.join(unknown)}; known are {', '.join(arrays)}")
        answer = self._run(
            {
                slot.name: arrays[slot.name].astype(_TYPES.get(slot.type, np.int64))
                for slot in self._inputs
            }
        )
        if answer.ndim != 3:
            return answer
        if self._declared.pooling is None:
            raise ValueError(
                "the model answers with a vector for each word; declare pooling, mean or first"
            )
        if self._declared.pooling == "first":
            return answer[:, 0]
        words = mask[:, :, None].astype(answer.dtype)
        return np.asarray((answer * words).sum(axis=1) / words.sum(axis=1).clip(1))

    def make_probe(self) -> Any:
        if self.input_kind == "texts":
            return FIXED_SENTENCE
        declared = self._declared
        if declared.shape is not None:
            return fixed_picture(declared.shape)
        shape = self._inputs[0].shape[1:]
        if not shape or not all(isinstance(length, int) and length > 0 for length in shape):
            return None if declared.size is None else fixed_picture((*declared.size, 3))
        if declared.layout == "channels first" and len(shape) == 3:
            shape = [*shape[1:], shape[0]]
        return fixed_picture(shape)


def _load_tokenizer(declared: DeclaredEmbedder) -> Any:
    require_package("tokenizers", declared.text, "onnx")
    from tokenizers import Tokenizer

    assert declared.tokenizer is not None
    require_regular_file(Path(declared.tokenizer))
    try:
        tokenizer = Tokenizer.from_file(declared.tokenizer)
    except Exception as error:  # it raises nothing more precise
        raise BadRule(f"tokenizer {declared.tokenizer!r} cannot be read: {error}") from None
    if tokenizer.padding is None:
        tokenizer.enable_padding()
    return tokenizer
