"""The entry point ``torch.backends``, which torch calls at the end of its own import, from 2.5 on."""

import sys

__all__ = ["load"]


def load() -> None:
    """Makes ``init_process_group("dabke")`` known without an import of this package."""
    # Where the package is what imports torch, it is half done here, and registers itself later.
    if "dabke.torch" not in sys.modules:
        import dabke.distributed  # noqa: F401
