"""``dabke.torch`` and its modules, under Horovod's names."""

import importlib
import sys

from dabke.torch import *  # noqa: F403

for _name in ("compression", "elastic", "functions", "mpi_ops", "optimizer", "sync_batch_norm"):
    _module = importlib.import_module(f"dabke.torch.{_name}")
    globals()[_name] = sys.modules[f"{__name__}.{_name}"] = _module
for _name in ("sampler", "state"):
    sys.modules[f"{__name__}.elastic.{_name}"] = importlib.import_module(f"dabke.torch.elastic.{_name}")
