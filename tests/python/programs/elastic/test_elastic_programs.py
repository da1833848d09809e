"""The elastic examples, in the form that users of Horovod write, while hosts are added and removed."""

import re

from changing_hosts import accuracy_of, run_through_changes


def test_pytorch_with_an_elastic_sampler(tmp_path):
    example = ("elastic_pytorch.py", "--epochs", "80")
    reached = accuracy_of(run_through_changes(tmp_path, *example))
    assert reached > 96.5  # without changes: 98.1 %


def test_a_benchmark_with_reset_callbacks(tmp_path):
    example = ("elastic_benchmark.py", "--iterations", "60")
    text = run_through_changes(tmp_path, *example)
    assert "[0]<stdout>:now 4 ranks" in text
    assert "[0]<stdout>:done" in text
    seen = [int(each) for each in dict.fromkeys(re.findall(r"<stdout>:iteration (\d+):", text))]
    # Rank 0 prints. If it is killed where the others have ended an iteration, the line of that one is lost.
    missing = set(range(1, 61)) - set(seen)
    assert seen == sorted(seen) and seen[-1] == 60 and len(missing) <= 1, text
