"""The elastic examples, in the form that users of Horovod write, while hosts are added and removed."""

import re

from changing_hosts import accuracy_of, run_through_changes, run_unbroken


def test_pytorch_with_an_elastic_sampler(tmp_path):
    example = ("elastic_pytorch.py", "--epochs", "80")
    reached = accuracy_of(run_through_changes(tmp_path, *example))
    assert reached > accuracy_of(run_unbroken(*example)) - 1.5


def test_a_benchmark_with_reset_callbacks(tmp_path):
    example = ("elastic_benchmark.py", "--iterations", "60")
    text = run_through_changes(tmp_path, *example)
    assert "[0]<stdout>:now 4 ranks" in text
    assert "[0]<stdout>:done" in text
    iterations = re.compile(r"<stdout>:iteration (\d+):")
    assert list(dict.fromkeys(iterations.findall(text))) == iterations.findall(run_unbroken(*example))
