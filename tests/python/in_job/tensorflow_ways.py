"""The ways in which a test of dabke.tensorflow calls a function: in eager mode, and in a graph of either
way."""

import pytest

tf = pytest.importorskip("tensorflow")

WAYS = ("eager", "async", "blocking")


@pytest.fixture(params=WAYS)
def way(request, monkeypatch):
    """Calls a function without arguments. A graph is traced anew, and runs twice."""
    if request.param == "eager":
        return lambda function: function()
    monkeypatch.setenv("DABKE_TENSORFLOW_KERNELS", request.param)

    def traced(function):
        compiled = tf.function(function)
        compiled()
        return compiled()

    return traced
