"""Lightning's Fabric on two hosts of a Slurm cluster, by dabkerun and by plain srun."""

import os
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("lightning")
sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "multiproc/hosts"))

import namespaces
import slurm
from job_processes import end_of

PROGRAM = """
import os
import dabke, torch
from dabke.lightning import DabkeEnvironment
from lightning.fabric import Fabric
from lightning.fabric.strategies import DDPStrategy

environment = DabkeEnvironment()
fabric = Fabric(accelerator="cpu", devices=dabke.local_size(), num_nodes=dabke.cross_size(),
                strategy=DDPStrategy(process_group_backend="dabke"), plugins=environment)
fabric.launch()
mine = torch.tensor([fabric.global_rank, fabric.node_rank, fabric.local_rank])
print("ranks", torch.distributed.get_backend(), fabric.all_gather(mine).tolist(), flush=True)
"""


@pytest.fixture
def cluster():
    try:
        with slurm.Cluster(3) as hosts:
            yield hosts
    except namespaces.NotPermitted as why:
        pytest.skip(f"no such hosts here: {why}")


@pytest.mark.parametrize("starter", ["dabkerun", "srun"])
def test_fabric_finds_its_hosts_and_ranks_in_a_slurm_job(program, cluster, starter):
    command = [sys.executable, str(program(PROGRAM))]
    if starter == "srun":
        job = cluster.start_by_srun(command)
    else:
        job = cluster.start([os.environ["DABKERUN"], *command])
    code, out, error = end_of(job)
    assert code == 0, out + error
    assert out.count("ranks dabke [[0, 0, 0], [1, 1, 0]]") == 2, out + error
