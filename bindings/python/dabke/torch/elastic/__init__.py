"""Elastic training with PyTorch, under the names of horovod.torch.elastic.

sampler = hvd.elastic.ElasticSampler(dataset)
state = hvd.elastic.TorchState(model=model, optimizer=optimizer, sampler=sampler, epoch=0)

@hvd.elastic.run
def train(state):
    while state.epoch < 10:
        for i, batch in enumerate(loader):
            ...
            state.sampler.record_batch(i, batch_size)
            state.commit()
        state.epoch += 1
        state.sampler.set_epoch(state.epoch)

train(state)
"""

from ..._frontend.elastic import HostsUpdatedInterrupt, ObjectState, State, run
from ...errors import HorovodInternalError
from . import failures as _failures  # noqa: F401  registers itself
from . import sampler, state
from .sampler import ElasticSampler, UnevenElasticSampler
from .state import TorchState

__all__ = [
    "ElasticSampler",
    "HorovodInternalError",
    "HostsUpdatedInterrupt",
    "ObjectState",
    "State",
    "TorchState",
    "UnevenElasticSampler",
    "run",
    "sampler",
    "state",
]
