"""Lightning and Fabric over the backend dabke: training, checkpoints, metrics, wrong settings, failures."""

import importlib.util
import os
import sys

import pytest
from conftest import ended

torch = pytest.importorskip("torch")
pytest.importorskip("lightning")

DATA = """
inputs = torch.randn(192, 64, generator=torch.Generator().manual_seed(7))
labels = inputs[:, :10].argmax(dim=1)
"""
TRAINING = (
    """
import sys
import dabke, torch
from dabke.lightning import DabkeEnvironment
from PACKAGE import LightningModule, Trainer
from PACKAGE.strategies import DDPStrategy
from torch.utils.data import DataLoader, TensorDataset

class Classifier(LightningModule):
    fails = False

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(64, 10)
        torch.nn.init.zeros_(self.layer.weight)
        torch.nn.init.constant_(self.layer.bias, 1000.0 * dabke.rank())  # rank 0's counts

    def training_step(self, batch, index):
        if self.fails and index == 2 and self.global_rank == 1:
            raise ValueError("the loss is not a number")
        return torch.nn.functional.cross_entropy(self.layer(batch[0]), batch[1])

    def validation_step(self, batch, _):
        right = (self.layer(batch[0]).argmax(dim=1) == batch[1]).float()
        self.log("accuracy", right.mean(), sync_dist=True)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.01)

def trainer_of(**settings):
    numbers = {"devices": dabke.local_size(), "num_nodes": dabke.cross_size()}
    return Trainer(accelerator="cpu", strategy=DDPStrategy(process_group_backend="dabke"),
                   plugins=DabkeEnvironment(), default_root_dir=sys.argv[1], logger=False,
                   enable_progress_bar=False, enable_model_summary=False, **{**numbers, **settings})

def loader(batch):
    return DataLoader(TensorDataset(inputs, labels), batch_size=batch)

DabkeEnvironment()
"""
    + DATA
)


def trained_alone(orders):
    """Returns the weights after the same steps in one process, and their accuracy. `orders` are those of the
    samples, one for each epoch. A step has the batches of both ranks."""
    seen = {"torch": torch}
    exec(DATA, seen)
    inputs, labels = seen["inputs"], seen["labels"]
    layer = torch.nn.Linear(64, 10)
    torch.nn.init.zeros_(layer.weight)
    torch.nn.init.zeros_(layer.bias)
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.01)
    for order in orders:
        for part in order.split(32):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(layer(inputs[part]), labels[part]).backward()
            optimizer.step()
    right = (layer(inputs).argmax(dim=1) == labels).double().mean().item()
    return layer.weight.detach(), right


@pytest.mark.parametrize("package", ["lightning.pytorch", "pytorch_lightning"])
def test_training_is_that_of_one_process_and_goes_on_from_a_checkpoint(run, tmp_path, package):
    if importlib.util.find_spec(package.split(".")[0]) is None:
        pytest.skip(f"{package} is not installed")
    done = run(
        TRAINING.replace("PACKAGE", package)
        + """
trainer = trainer_of(max_epochs=1)
trainer.fit(Classifier(), loader(16), loader(16))
path = trainer.checkpoint_callback.best_model_path

model = Classifier()
trainer = trainer_of(max_epochs=3)
trainer.fit(model, loader(16), loader(16), ckpt_path=path)
torch.save(model.layer.weight.detach(), f"{sys.argv[1]}/weight{trainer.global_rank}.pt")
print(torch.distributed.get_backend(), trainer.world_size, trainer.global_step,
      trainer.callback_metrics["accuracy"].item(), flush=True)
""",
        arguments=[tmp_path],
        env={"OMP_NUM_THREADS": "1"},
    )
    assert done.code == 0, done.output
    # Lightning's own sampler shuffles. Its seed is 0, and torch's DistributedSampler adds the epoch.
    orders = [torch.randperm(192, generator=torch.Generator().manual_seed(epoch)) for epoch in range(3)]
    weight, accuracy = trained_alone(orders)
    for rank in (0, 1):
        backend, size, steps, seen = done.lines_of(rank)[-1].split()
        assert (backend, size, steps) == ("dabke", "2", "18"), done.output
        assert float(seen) == pytest.approx(accuracy), done.output
        torch.testing.assert_close(torch.load(tmp_path / f"weight{rank}.pt"), weight)


def test_an_exception_of_one_rank_ends_the_training_with_its_cause(run, tmp_path):
    done = run(
        TRAINING.replace("PACKAGE", "lightning.pytorch")
        + """
for numbers in ({"devices": 3}, {"num_nodes": 2}):
    try:
        trainer_of(max_epochs=1, **numbers).fit(Classifier(), loader(16))
    except ValueError as error:
        print("refused:", error, flush=True)
Classifier.fails = True
trainer_of(max_epochs=1).fit(Classifier(), loader(16))
""",
        arguments=[tmp_path],
        env={"OMP_NUM_THREADS": "1"},
        to_the_last=True,
    )
    assert done.code != 0
    refused = [each for each in done.lines_of(0) if each.startswith("refused")]
    assert len(refused) == 2, done.output
    assert "devices=3 and num_nodes=1, but the job has 2 ranks, 2 on each host" in refused[0]
    assert "pass devices=2 and num_nodes=1, or start 4 ranks" in refused[1]
    # Rank 0 waits for the gradients of rank 1.
    cause = "rank 1 on HOST aborted the job: ValueError: the loss is not a number (train.py:"
    before, after = cause.split("HOST")
    lines = [each for each in done.output.splitlines() if each.startswith("[0]")]
    assert any(before in each and after in each for each in lines), done.output


def test_fabric_trains_under_torchrun(program, tmp_path):
    path = program(
        """
import os, sys
import dabke, torch
from dabke.lightning import DabkeEnvironment
from lightning.fabric import Fabric
from lightning.fabric.strategies import DDPStrategy
from torch.utils.data import DataLoader, TensorDataset
"""
        + DATA
        + """
environment = DabkeEnvironment()
fabric = Fabric(accelerator="cpu", devices=dabke.local_size(), num_nodes=dabke.cross_size(),
                strategy=DDPStrategy(process_group_backend="dabke"), plugins=environment)
fabric.launch()
layer = torch.nn.Linear(64, 10)
torch.nn.init.zeros_(layer.weight)
torch.nn.init.zeros_(layer.bias)
model, optimizer = fabric.setup(layer, torch.optim.Adam(layer.parameters(), lr=0.01))
for part in fabric.setup_dataloaders(DataLoader(TensorDataset(inputs, labels), batch_size=16)):
    optimizer.zero_grad()
    fabric.backward(torch.nn.functional.cross_entropy(model(part[0]), part[1]))
    optimizer.step()
fabric.save(sys.argv[1], {"model": model})
ranks = fabric.all_gather(torch.tensor([fabric.global_rank]))
mean = fabric.all_reduce(torch.tensor(float(fabric.global_rank)), reduce_op="mean")
os.write(1, f"seen {torch.distributed.get_backend()} {ranks.flatten().tolist()} {mean}\\n".encode())
"""
    )
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    done = ended([*command, path, tmp_path / "state.pt"], 300, {"OMP_NUM_THREADS": "1"})
    assert done.code == 0, done.output
    assert done.output.count("seen dabke [0, 1] 0.5") == 2, done.output
    torch.testing.assert_close(
        torch.load(tmp_path / "state.pt")["model"]["weight"], trained_alone([torch.arange(192)])[0]
    )


def test_an_elastic_job_is_refused(program):
    path = program("from dabke.lightning import DabkeEnvironment\nDabkeEnvironment()\n")
    done = ended([os.environ["DABKERUN"], "-np", "1", "--min-np", "1", sys.executable, path], 300)
    assert done.code != 0
    assert (
        "InvalidArgumentError: DabkeEnvironment: Lightning cannot change the number of ranks" in done.output
    )


def test_the_import_of_lightning_is_the_program_s(program):
    path = program("""
        import sys
        from dabke.lightning import DabkeEnvironment
        print(sorted({"lightning", "pytorch_lightning", "lightning_fabric"} & set(sys.modules)))
        DabkeEnvironment()
    """)
    done = ended([sys.executable, path], 300)
    assert done.output.startswith("[]"), done.output
    assert "ImportError: DabkeEnvironment: import lightning or pytorch_lightning first" in done.output
