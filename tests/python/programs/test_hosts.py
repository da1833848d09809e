"""The example on several hosts, made of network namespaces (tests/multiproc), with each way to start its
ranks."""

import os
import re
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests/multiproc/hosts"))

import mpirun
import namespaces
import slurm
from job_processes import end_of
from ssh_hosts import SshHosts

EXAMPLE = [sys.executable, str(ROOT / "examples/pytorch_digits.py"), "--epochs", "4"]


def while_open(hosts):
    try:
        with hosts:
            yield hosts
    except namespaces.NotPermitted as why:
        pytest.skip(f"no such hosts here: {why}")


@pytest.fixture
def ssh():
    yield from while_open(SshHosts(2))


@pytest.fixture
def cluster():
    yield from while_open(slurm.Cluster(3))


def expect_trained(job):
    code, out, error = end_of(job)
    assert code == 0, out + error
    assert "ranks: 2," in out
    assert float(re.findall("held-out accuracy ([0-9.]+) %", out)[-1]) >= 90, out


def test_the_example_learns_over_ssh(ssh):
    expect_trained(ssh.start(os.environ["DABKERUN"], EXAMPLE))


def test_the_example_learns_in_a_slurm_job(cluster):
    expect_trained(cluster.start([os.environ["DABKERUN"], *EXAMPLE]))


def test_the_example_learns_by_plain_srun(cluster):
    expect_trained(cluster.start_by_srun(EXAMPLE))


@pytest.mark.parametrize("mpi", mpirun.FURTHER)
def test_the_example_learns_by_mpirun(ssh, mpi):
    if not mpirun.is_installed(mpi):
        pytest.skip(f"there is no mpirun.{mpi}")
    expect_trained(mpirun.start(ssh, mpi, os.environ["DABKERUN"], EXAMPLE))
