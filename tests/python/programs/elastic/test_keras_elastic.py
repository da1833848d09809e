"""The elastic example of Keras, while hosts are added and removed."""

import importlib.util

from changing_hosts import accuracy_of, run_through_changes


def test_fit(tmp_path):
    chosen = "jax" if importlib.util.find_spec("jax") else "tensorflow"
    example, backend = ("elastic_keras.py", "--epochs", "80"), {"KERAS_BACKEND": chosen}
    reached = accuracy_of(run_through_changes(tmp_path, *example, environment=backend))
    assert reached > 95  # without changes: 96.9 %
