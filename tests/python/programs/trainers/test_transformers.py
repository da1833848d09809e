"""The Trainer of Transformers over the backend dabke, with a small model of random weights."""

import json

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("accelerate")  # the Trainer needs it
pytest.importorskip("transformers")

# sys.argv: the backend and a folder.
TRAINING = """
import json, sys
import dabke.distributed
import torch, torch.distributed as dist
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments, set_seed

backend, folder = sys.argv[1:]
dist.init_process_group(backend)

def train(last_step, checkpoint=None):
    set_seed(0)
    config = LlamaConfig(vocab_size=64, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
                         num_attention_heads=4)
    arguments = TrainingArguments(f"{folder}/checkpoints", use_cpu=True, max_steps=last_step, save_steps=4,
                                  logging_steps=1, per_device_train_batch_size=8, report_to="none",
                                  lr_scheduler_type="constant", ddp_find_unused_parameters=False)
    tokens = torch.randint(64, (128, 16), generator=torch.Generator().manual_seed(7))
    data = [{"input_ids": each, "labels": each} for each in tokens]
    trainer = Trainer(LlamaForCausalLM(config), arguments, train_dataset=data)
    trainer.train(resume_from_checkpoint=checkpoint)
    losses = [each["loss"] for each in trainer.state.log_history if "loss" in each]
    return trainer.model.state_dict(), losses

def report(name, trained):
    torch.save(trained[0], f"{folder}/{name}{dist.get_rank()}.pt")
    print(json.dumps([dist.group.WORLD.name(), trained[1]]), flush=True)
"""


def losses_of(done):
    """Returns each report of rank 0: the backend, and the mean losses of the steps."""
    assert done.code == 0, done.output
    return [json.loads(line) for line in done.lines_of(0) if line.startswith('["')]


def train(run, backend, folder, program):
    folder.mkdir()
    return run(TRAINING + program, arguments=[backend, folder], env={"OMP_NUM_THREADS": "1"})


def test_the_trainer_has_the_losses_of_gloo_and_goes_on_from_a_checkpoint(run, tmp_path):
    whole = 'report("whole", train(8))\n'
    # Another training in the same job goes on from the middle of the first.
    resumed = 'report("resumed", train(8, f"{folder}/checkpoints/checkpoint-4"))\n'
    ours, again = losses_of(train(run, "dabke", tmp_path / "dabke", whole + resumed))
    (theirs,) = losses_of(train(run, "gloo", tmp_path / "gloo", whole))
    assert (ours[0], again[0], theirs[0]) == ("dabke", "dabke", "gloo")
    assert len(ours[1]) == 8 and ours[1][-1] < ours[1][0]
    assert ours[1] == pytest.approx(theirs[1], rel=1e-6) and again[1] == ours[1]
    states = [
        torch.load(tmp_path / "dabke" / f"{name}{n}.pt") for name in ("whole", "resumed") for n in (0, 1)
    ]
    for state in states[1:]:
        for name, weight in states[0].items():
            assert torch.equal(weight, state[name]), name
