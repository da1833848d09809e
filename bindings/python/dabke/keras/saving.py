"""Models from files, with a distributed optimizer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import keras  # type: ignore[import-untyped,import-not-found,unused-ignore]

from .distributed_class import is_distributed
from .optimizer import Compression, DistributedOptimizer

__all__ = ["load_model"]


def load_model(
    filepath: Any,
    custom_optimizers: Sequence[Any] | None = None,
    custom_objects: Mapping[str, Any] | None = None,
    compression: Any = Compression.none,
    legacy_opts: bool = False,
) -> Any:
    """Loads a model whose optimizer is then distributed, with its state.

    The file is one of plain Keras, which ``keras.models.load_model`` reads, too.

    Args:
        filepath: the file, such as ``model.keras``.
        custom_optimizers: optimizer classes of the program that the file may name.
        custom_objects: other classes and functions of the program that the file may name.
        compression: the form in which gradients travel, as in ``DistributedOptimizer``.
        legacy_opts: ignored; Horovod has it.

    Returns:
        the model, compiled as it was.

    Raises:
        ValueError: Keras cannot read the file.
        NotInitializedError: this process is not in a job.
    """
    known = {each.__name__: each for each in custom_optimizers or ()}
    model = keras.saving.load_model(filepath, custom_objects={**known, **(custom_objects or {})})
    optimizer = getattr(model, "optimizer", None)
    if optimizer is not None and not is_distributed(optimizer):
        model.optimizer = DistributedOptimizer(optimizer, compression=compression)
    return model
