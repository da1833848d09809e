"""Lightning and Fabric in a job of Dabke: ``DabkeEnvironment``, a cluster environment.

    import dabke
    from dabke.lightning import DabkeEnvironment
    from lightning.pytorch import Trainer
    from lightning.pytorch.strategies import DDPStrategy

    environment = DabkeEnvironment()
    trainer = Trainer(
        accelerator="cpu",
        devices=dabke.local_size(),
        num_nodes=dabke.cross_size(),
        strategy=DDPStrategy(process_group_backend="dabke"),
        plugins=environment,
    )

This module imports neither ``lightning`` nor ``pytorch_lightning``; the class works with both.
docs/python/trainers.md has whole programs.
"""

from __future__ import annotations

import os
import sys

from . import epochs, job
from ._bootstrap.launchers import is_numbered
from .errors import InvalidArgumentError
from .torch import torchrun
from .torch.distributed import job_owner

__all__ = ["DabkeEnvironment"]

# The packages of Fabric, one in ``lightning`` and one in ``pytorch_lightning``. Each has a class of its own.
_PACKAGES = ("lightning.fabric", "lightning_fabric")
# An address that nothing can connect to. The port 0 makes init_process_group use the job's own store
# (torch/distributed/rendezvous.py).
_ADDRESS_OF_JOB, _PORT_OF_JOB = "dabke-job", "0"


class DabkeEnvironment:
    """A ``ClusterEnvironment`` whose processes are the ranks of a job, whatever has started them.

    All ranks make it, after the import of Lightning. The job starts then, if it does not run yet, so
    ``dabke.local_size()`` and ``dabke.cross_size()`` have the values of ``devices`` and ``num_nodes``.

    Raises:
        ImportError: the program has not imported Lightning.
        InvalidArgumentError: the job is elastic. Lightning cannot change the number of ranks.
    """

    def __init__(self) -> None:
        if epochs.is_elastic():
            raise InvalidArgumentError(
                "DabkeEnvironment: Lightning cannot change the number of ranks; start dabkerun without "
                "--min-np and --max-np"
            )
        _register()
        if job.is_initialized():
            return
        if torchrun.by_torchrun():
            store, rank, size = torchrun.store_of_torch()
            job_owner.start(store, rank=rank, size=size)
        else:
            job_owner.start()

    @property
    def creates_processes_externally(self) -> bool:
        return True

    @property
    def main_address(self) -> str:
        return os.environ.get("MASTER_ADDR", _ADDRESS_OF_JOB)

    @property
    def main_port(self) -> int:
        return int(os.environ.get("MASTER_PORT", _PORT_OF_JOB))

    @staticmethod
    def detect() -> bool:
        return is_numbered()

    def world_size(self) -> int:
        return job.size()

    def global_rank(self) -> int:
        return job.rank()

    def local_rank(self) -> int:
        return job.local_rank()

    def node_rank(self) -> int:
        return job.cross_rank()

    # The job decides about these numbers.
    def set_world_size(self, size: int) -> None:
        pass

    def set_global_rank(self, rank: int) -> None:
        pass

    def validate_settings(self, num_devices: int, num_nodes: int) -> None:
        """Compares `devices` and `num_nodes` of the Trainer, or of Fabric, with the job.

        Raises:
            ValueError: they differ, or the hosts have different numbers of ranks.
        """
        if not job.is_homogeneous():
            raise ValueError(
                f"the hosts of this job of {job.size()} ranks have different numbers of ranks; Lightning "
                "needs the same number on each"
            )
        if (num_devices, num_nodes) != (job.local_size(), job.cross_size()):
            wanted = num_devices * num_nodes
            other_job = f", or start {wanted} ranks, such as with dabkerun -np {wanted}"
            raise ValueError(
                f"devices={num_devices} and num_nodes={num_nodes}, but the job has {job.size()} ranks, "
                f"{job.local_size()} on each host; pass devices={job.local_size()} and "
                f"num_nodes={job.cross_size()}{other_job if wanted != job.size() else ''}"
            )

    def teardown(self) -> None:
        pass


def _register() -> None:
    """Makes the class a subclass of ``ClusterEnvironment``, in each of the packages that is imported."""
    modules = [sys.modules.get(f"{each}.plugins.environments.cluster_environment") for each in _PACKAGES]
    if modules == [None, None]:
        raise ImportError("DabkeEnvironment: import lightning or pytorch_lightning first")
    for module in filter(None, modules):
        module.ClusterEnvironment.register(DabkeEnvironment)
