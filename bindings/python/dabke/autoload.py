"""The entry point ``torch.backends``, which torch calls at the end of its own import, from 2.5 on."""

import sys

__all__ = ["load"]


def load() -> None:
    """Registers the backend ``dabke`` of torch.distributed without an import in the program."""
    # If this package imports torch, its own import is not complete here. It registers the backend later.
    if "dabke.torch" not in sys.modules:
        import dabke.distributed  # noqa: F401
