"""The elastic example of Keras, while hosts are added and removed."""

from changing_hosts import accuracy_of, run_through_changes


def test_fit(tmp_path):
    example, backend = ("elastic_keras.py", "--epochs", "80"), {"KERAS_BACKEND": "jax"}
    reached = accuracy_of(run_through_changes(tmp_path, *example, environment=backend))
    assert reached > 95  # without changes: 96.9 %
