"""Embeds with a torch model that a function returns: `torch:module:function`.

The function is called once, without arguments. Its result is called with a batch: arrays as one
float32 tensor, texts as a list. A torch module is put into evaluation mode, without gradients.
"""

from collections.abc import Sequence
from hashlib import sha256
from typing import Any

import numpy as np
import numpy.typing as npt

from likewise.embedders.declaration import DeclaredEmbedder, embed_error
from likewise.embedders.embedding_model import InputKind, require_package
from likewise.embedders.function import import_function, make_declared_probe
from likewise.embedders.pictures import PicturePreprocessor, PictureReader
from likewise.errors import BadRule


class Torch:
    """Calls a torch model."""

    input_kind: InputKind = "anything"

    def __init__(self, declared: DeclaredEmbedder) -> None:
        require_package("torch", declared.text, "torch")
        import torch

        self._torch = torch
        self._declared = declared
        self._pictures = PictureReader(declared)
        self._prepare = PicturePreprocessor(declared)
        try:
            self._model = import_function(declared)()
        except BadRule:
            raise
        except Exception as error:
            raise embed_error(declared.text, f", and making it failed: {error}") from None
        self.identity = "torch"
        if isinstance(self._model, torch.nn.Module):
            self._model.eval()
            self.identity += f" {digest_of_module(self._model)}"
        self.identity += declared.preprocessing_text

    def embed(self, batch: Sequence[Any]) -> npt.NDArray[Any]:
        if isinstance(batch[0], str):
            return self._answer(list(batch))
        arrays = ((i, self._pictures.array_of(item)) for i, item in enumerate(batch))
        answers = [
            self._answer(self._torch.from_numpy(self._prepare.preprocess_batch(part)))
            for _, part in self._pictures.batches(arrays, len(batch))
        ]
        return answers[0] if len(answers) == 1 else np.concatenate(answers)

    def _answer(self, batch: Any) -> npt.NDArray[Any]:
        torch = self._torch
        with torch.inference_mode():
            answer = self._model(batch)
        if isinstance(answer, torch.Tensor):
            answer = answer.to(device="cpu", dtype=torch.float32).numpy()
        return np.asarray(answer)

    def make_probe(self) -> Any:
        return make_declared_probe(self._declared)


def digest_of_module(model: Any) -> str:
    """Return a short digest of a module's parameters."""
    import torch

    digest = sha256()
    for name, values in model.state_dict().items():
        digest.update(name.encode())
        if isinstance(values, torch.Tensor):  # read as bytes: NumPy has no bfloat16
            flat = values.detach().cpu().contiguous().reshape(-1)
            digest.update(flat.view(torch.uint8).numpy().tobytes())
        else:
            digest.update(repr(values).encode())
    return digest.hexdigest()[:16]
