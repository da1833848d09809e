"""Queries, statistics, settings, timeline, labels and dumps."""

import json

import numpy
import pytest

import dabke


def test_a_rank_knows_its_place(job):
    assert 0 <= job.rank < job.size
    assert (dabke.local_rank(), dabke.local_size()) == (job.rank, job.size)
    assert (dabke.cross_rank(), dabke.cross_size()) == (0, 1)
    assert dabke.is_homogeneous()
    assert dabke.is_initialized()
    assert dabke.allgather(numpy.array([job.rank])).tolist() == list(range(job.size))


def test_a_build_knows_what_it_has():
    assert dabke.gloo_built()
    assert dabke.backend_built("shm")
    assert dabke.controller_built("tcp")
    assert not dabke.backend_built("nothing")
    assert isinstance(dabke.nccl_built(), int)
    assert isinstance(dabke.mpi_built(), bool)
    assert dabke.mpi_enabled() in (False, True)
    assert not (dabke.cuda_built() or dabke.rocm_built() or dabke.ddl_built() or dabke.ccl_built())
    assert dabke.version() == dabke.__version__
    assert dabke.mpi_threads_supported() in (False, True)


def test_statistics_count_what_was_submitted(job):
    before = dabke.statistics()
    dabke.allreduce(numpy.ones(1000), "counted")
    after = dabke.statistics()
    assert after["tensors_submitted"] == before["tensors_submitted"] + 1
    assert after["tensors_completed"] >= before["tensors_completed"] + 1
    assert any(
        row["collective"] == "allreduce" and row["bytes"] >= 8000 for row in dabke.collective_statistics()
    )
    assert dabke.late_seconds(0) >= 0


def test_settings_are_shown_with_their_values():
    rows = {row["name"]: row for row in dabke.config()}
    assert rows["DABKE_STALL_CHECK_TIME_SECONDS"]["value"].startswith("20")
    assert rows["DABKE_FUSION_THRESHOLD"]["help"]
    assert rows["DABKE_FUSION_THRESHOLD"]["horovod_name"] == "HOROVOD_FUSION_THRESHOLD"


def test_a_dump_has_the_python_stacks(job, tmp_path):
    file = tmp_path / "dump.json"
    dabke.dump(file)
    text = file.read_text()
    assert json.loads(text)
    assert "test_statistics.py" in text
    assert "test_a_dump_has_the_python_stacks" in text


def test_a_timeline_is_written_while_the_job_runs(job, tmp_path):
    file = tmp_path / "timeline.json"
    if job.rank == 0:  # rank 0 calls for all ranks; each rank has its own folder
        dabke.start_timeline(file)
    dabke.barrier()
    dabke.allreduce(numpy.ones(3), "on the timeline")
    dabke.barrier()
    if job.rank == 0:
        dabke.stop_timeline()
        assert "on the timeline" in file.read_text()


def test_labels_may_stand_anywhere(job):
    with dabke.annotate("step"):
        dabke.mark_step(1)

    @dabke.annotate("forward")
    def forward():
        return dabke.rank()

    assert forward() == job.rank
    with pytest.raises(KeyError), dabke.annotate("fails"):
        raise KeyError


def test_an_array_is_made_by_any_name_of_its_dtype():
    for dtype in ("float32", numpy.float32, numpy.dtype("float32"), "f4"):
        assert dabke.alloc(5, dtype).dtype == numpy.float32
    assert dabke.alloc((0, 3)).shape == (0, 3)
    assert dabke.alloc(()).shape == ()
