# Training on several devices: DistributedDataParallel, fully_shard and DTensor in two processes over gloo.
import os
import subprocess
import sys

RANK = """
import os, sys
import torch, torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
try:
    from torch.distributed.fsdp import fully_shard
except ImportError:  # before 2.6
    fully_shard = None
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_module, distribute_tensor
from torch.nn.parallel import DistributedDataParallel
from libsdtw.torch import SoftDTW, soft_dtw

rank, size = int(sys.argv[1]), 2
dist.init_process_group("gloo", init_method=f"file://{sys.argv[2]}", rank=rank, world_size=size)
mesh = init_device_mesh("cpu", (size,))
rng = torch.Generator().manual_seed(0)
x, y = (torch.randn(8, n, 2, generator=rng, dtype=torch.float64) for n in (9, 7))
lengths = torch.tensor([9, 8, 7, 6, 5, 4, 3, 2])
own = slice(rank * 8 // size, (rank + 1) * 8 // size)
loss = SoftDTW(gamma=0.5, normalize=True, reduction="mean")

def network():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(2, 16), torch.nn.Tanh(), torch.nn.Linear(16, 2)).double()

def whole(tensor):
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor

def train(module, x, y, lengths):
    optimizer, values = torch.optim.Adam(module.parameters(), 0.1), []
    for _ in range(3):
        optimizer.zero_grad()
        value = loss(module(x), y, lengths)
        value.backward()
        optimizer.step()
        values.append(whole(value.detach()))
    return torch.stack(values), [whole(parameter.detach()) for parameter in module.parameters()]

def sharded(module):  # each layer, and what is left
    for layer in module:
        if list(layer.parameters()):
            fully_shard(layer, mesh=mesh)
    return fully_shard(module, mesh=mesh)

expected, parameters = train(network(), x, y, lengths)
for wrap in (DistributedDataParallel, *([sharded] if fully_shard else [])):
    values, found = train(wrap(network()), x[own], y[own], lengths[own])
    dist.all_reduce(values)
    torch.testing.assert_close(values / size, expected)
    torch.testing.assert_close(found, parameters)

# A batch that is sharded stays so, and the mean of its values is that of all
batch = [distribute_tensor(t, mesh, [Shard(0)]) for t in (x, y, lengths)]
values, found = train(distribute_module(network(), mesh), *batch)
torch.testing.assert_close(values, expected)
torch.testing.assert_close(found, parameters)
a = batch[0].requires_grad_()
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
    # Each way learns what one process learns from the whole batch
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", RANK, str(rank), str(tmp_path / "rendezvous")],
            env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )
        for rank in range(2)
    ]  # fmt: skip
    try:
        outputs = [process.communicate(timeout=240)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    for rank, (process, output) in enumerate(zip(processes, outputs, strict=True)):
        assert process.returncode == 0, output
        assert f"done {rank}" in output
