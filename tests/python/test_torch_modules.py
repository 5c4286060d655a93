# SoftDTW as a part of programs: copies, workers, processes, checkpoints, sharded batches.
import copy
import io
import os
import pickle
import subprocess
import sys
import textwrap

import pytest
import torch
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, Dataset

from libsdtw.torch import SoftDTW, pad, soft_dtw
from torch_data import grads, pair


def distance(x, y):
    return torch.cdist(x, y)


@pytest.mark.parametrize("loss", [
    SoftDTW(gamma=0.5, reduction="mean", normalize=True, zero_infinity=True),
    SoftDTW(metric=distance),
    SoftDTW(gamma=torch.nn.Parameter(torch.tensor(0.5))),
    SoftDTW(gamma=torch.tensor(0.5)),
])  # fmt: skip
def test_copies(loss):
    x, y = pair("cpu", torch.float32)
    expected = loss(x, y)
    file = io.BytesIO()
    torch.save(loss, file)
    file.seek(0)
    for other in (
        copy.deepcopy(loss),
        pickle.loads(pickle.dumps(loss)),
        torch.load(file, weights_only=False),
    ):
        torch.testing.assert_close(other(x, y), expected, rtol=0, atol=0)
        assert repr(other) == repr(loss)
        other.load_state_dict(loss.state_dict())


@pytest.mark.filterwarnings("ignore:.torch.jit.script")
def test_script_is_refused_by_name():
    with pytest.raises(NotImplementedError, match=r"torch\.jit\.script .*torch\.compile or torch\.export"):
        torch.jit.script(SoftDTW())
    with pytest.raises(NotImplementedError, match=r"torch\.compile"):
        torch.jit.script(torch.nn.Sequential(SoftDTW()))


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_checkpointing(device, use_reentrant):
    x, y = pair(device)
    expected = soft_dtw(2 * x, y)
    value = checkpoint(lambda x, y: soft_dtw(2 * x, y), x, y, use_reentrant=use_reentrant)
    value.sum().backward()
    torch.testing.assert_close((x.grad, y.grad), grads(expected, x, y), rtol=0, atol=0)


def test_deterministic_algorithms(device):
    x, y = pair(device)
    expected = soft_dtw(x, y)
    torch.use_deterministic_algorithms(True)
    try:
        value = soft_dtw(x, y)
        results = value, *grads(value, x, y)
    finally:
        torch.use_deterministic_algorithms(False)
    torch.testing.assert_close(results, (expected, *grads(expected, x, y)), rtol=0, atol=0)


class Pairs(Dataset):
    """Each item has the value of its pair, computed by the worker."""

    def __len__(self):
        return 6

    def __getitem__(self, k):
        rng = torch.Generator().manual_seed(k)
        x, y = torch.randn(5 + k, 2, generator=rng), torch.randn(4, 2, generator=rng)
        return x, y, soft_dtw(x, y)


def collate(items):
    x, y, values = zip(*items, strict=True)
    return *pad(x), torch.stack(y), torch.stack(values)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_workers_of_a_data_loader():
    soft_dtw(*pair("cpu"))  # the parent has threads of its own
    for x, lengths, y, values in DataLoader(Pairs(), batch_size=3, num_workers=2, collate_fn=collate):
        torch.testing.assert_close(soft_dtw(x, y, x_lengths=lengths), values)


DISTRIBUTED = """
import os
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from libsdtw.torch import SoftDTW, soft_dtw
dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
rng = torch.Generator().manual_seed(0)
x, y = (torch.randn(8, n, 2, generator=rng, dtype=torch.float64) for n in (9, 7))
lengths = torch.tensor([9, 8, 7, 6, 5, 4, 3, 2])
loss = SoftDTW(gamma=0.5, reduction="mean")
torch.manual_seed(0)
layer = torch.nn.Linear(2, 2, dtype=torch.float64)
alone = torch.nn.Linear(2, 2, dtype=torch.float64)
alone.load_state_dict(layer.state_dict())
loss(alone(x), y, lengths).backward()
module = DistributedDataParallel(layer)
own = slice(rank * 8 // size, (rank + 1) * 8 // size)
loss(module(x[own]), y[own], lengths[own]).backward()
torch.testing.assert_close(layer.weight.grad, alone.weight.grad)

from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
mesh = init_device_mesh("cpu", (size,))
a = distribute_tensor(x, mesh, [Shard(0)]).requires_grad_()
for place in (Shard(0), Replicate()):
    b, n = distribute_tensor(y, mesh, [place]), distribute_tensor(lengths, mesh, [place])
    value = soft_dtw(a, b, x_lengths=n)
    assert isinstance(value, DTensor) and value.placements == (Shard(0),), value
    torch.testing.assert_close(value.full_tensor(), soft_dtw(x, y, x_lengths=lengths))
    grad, = torch.autograd.grad(value.sum(), a)
    assert grad.placements == (Shard(0),)
    plain = x.clone().requires_grad_()
    torch.testing.assert_close(grad.full_tensor(),
        torch.autograd.grad(soft_dtw(plain, y, x_lengths=lengths).sum(), plain)[0])
dist.barrier()
dist.destroy_process_group()
print("done", rank, flush=True)
os._exit(0)  # where gloo's threads now and then end an exiting process with "terminate called"
"""


def test_two_processes(tmp_path):
    # DistributedDataParallel and a batch that DTensor shards, over gloo on the CPU.
    program = tmp_path / "distributed.py"
    program.write_text(textwrap.dedent(DISTRIBUTED))
    processes, pipes = [], {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    for rank in range(2):
        environment = {
            **os.environ, "RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(29500 + os.getpid() % 1000), "OMP_NUM_THREADS": "1",
            "GLOO_SOCKET_IFNAME": "lo",
        }  # fmt: skip
        command = [sys.executable, str(program)]
        processes.append(subprocess.Popen(command, env=environment, text=True, **pipes))
    try:
        outputs = [process.communicate(timeout=120)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    for rank, (process, output) in enumerate(zip(processes, outputs, strict=True)):
        assert process.returncode == 0, output
        assert f"done {rank}" in output
