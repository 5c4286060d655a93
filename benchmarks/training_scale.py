"""Weak scaling of training with the loss: milliseconds a step on 1, 2, 4 devices, with a batch each.

    python benchmarks/training_scale.py --output benchmarks/results/training.json
    python benchmarks/training_scale.py --cpu --devices 1 2 --batch 8 --length 64 --steps 20

For each number of devices torchrun starts as many processes, one for each GPU, over NCCL; with --cpu one for
each core, over gloo. A network of two convolutions turns noise into series, and its loss is their soft-DTW
(gamma 0.1, of pairs of unequal lengths) to others. It is trained by DistributedDataParallel and by
fully_shard; "loss" is value and gradient of the loss alone, which exchange nothing. Efficiency is the time of
one device over that of n.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from datetime import date
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import timing
from libsdtw.torch import SoftDTW
from lines import line_of

FEATURES, HIDDEN, GAMMA = 8, 64, 0.1


def network(device):
    torch.manual_seed(0)
    layers = (
        torch.nn.Conv1d(FEATURES, HIDDEN, 5, padding="same"), torch.nn.ReLU(),
        torch.nn.Conv1d(HIDDEN, FEATURES, 5, padding="same"),
    )  # fmt: skip
    return torch.nn.Sequential(*layers).to(device)


def sharded(module):
    mesh = init_device_mesh(next(module.parameters()).device.type, (dist.get_world_size(),))
    for layer in (module[0], module[2]):
        fully_shard(layer, mesh=mesh)
    return fully_shard(module, mesh=mesh)


class Steps:
    """Steps of training on this device's own batch."""

    def __init__(self, module, args, device, rank):
        rng = torch.Generator().manual_seed(rank)
        size = args.batch, args.length, FEATURES
        self.x, self.y = (torch.randn(*size, generator=rng).to(device) for _ in range(2))
        self.lengths = torch.randint(args.length // 2, args.length + 1, (args.batch,), generator=rng).to(
            device
        )
        self.module, self.loss = module, SoftDTW(gamma=GAMMA, reduction="mean")
        self.optimizer = torch.optim.Adam(module.parameters(), 1e-3)

    def __call__(self):
        self.optimizer.zero_grad()
        made = self.module(self.x.mT).mT
        self.loss(made, self.y, self.lengths, self.lengths).backward()
        self.optimizer.step()

    def of_the_loss(self):
        self.x.requires_grad_()
        self.loss(self.x, self.y, self.lengths, self.lengths).backward()


def milliseconds(work, count, device):
    """The median time of a step, from when all processes are there until this device has done it."""
    seconds = []
    for repeat in range(count + 3):
        dist.barrier()
        if device.type == "cuda":
            torch.cuda.synchronize()
        begin = time.perf_counter()
        work()
        if device.type == "cuda":
            torch.cuda.synchronize()
        if repeat >= 3:  # what is loaded and allocated once comes before
            seconds.append(time.perf_counter() - begin)
    return float(np.median(seconds)) * 1e3


def process(args):
    """One of the processes; the first writes what it has measured."""
    rank = int(os.environ["RANK"])
    device = torch.device("cpu") if args.cpu else torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    if args.cpu:
        torch.set_num_threads(1)
    else:
        torch.cuda.set_device(device)
    dist.init_process_group("gloo" if args.cpu else "nccl")
    found = {"loss": milliseconds(Steps(network(device), args, device, rank).of_the_loss, args.steps, device)}
    for wrap in (DistributedDataParallel, sharded):
        steps = Steps(wrap(network(device)), args, device, rank)
        name = "fully_shard" if wrap is sharded else wrap.__name__
        found[name] = milliseconds(steps, args.steps, device)
    if rank == 0:
        hardware = timing.cpu_name() if args.cpu else torch.cuda.get_device_name(device)
        args.measured.write_text(json.dumps({"hardware": hardware, "ms": found}))
    dist.barrier()
    dist.destroy_process_group()
    os._exit(0)  # where gloo's threads now and then end an exiting process with "terminate called"


def started(count, folder):
    """What so many processes have measured."""
    measured = Path(folder) / "measured.json"
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(count)]
    environment = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", **os.environ}
    command = [*launch, __file__, *sys.argv[1:], "--measured", str(measured)]
    subprocess.run(command, env=environment, check=True)
    return json.loads(measured.read_text())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, help="JSON; without it rows are printed only")
    parser.add_argument("--cpu", action="store_true", help="cores in the place of GPUs")
    parser.add_argument("--devices", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--batch", type=int, default=64, help="pairs of each device")
    parser.add_argument("--length", type=int, default=256)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--measured", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measured:
        process(args)
    there = len(os.sched_getaffinity(0)) if args.cpu else torch.cuda.device_count()
    rows, alone = [], None
    for count in [n for n in args.devices if n <= there]:
        with tempfile.TemporaryDirectory() as folder:
            found = started(count, folder)
        alone = alone or found["ms"]
        for way, taken in found["ms"].items():
            sizes = {"B": args.batch, "N": args.length, "d": FEATURES, "gamma": GAMMA}
            rows.append({
                "what": "a step of training", "way": way, "device": "cpu" if args.cpu else "cuda",
                "devices": count, **sizes, "problem": line_of(sizes, lengths=args.length // 2),
                "median_ms": taken, "efficiency": alone[way] / taken, "hardware": found["hardware"],
                "torch": torch.__version__, "commit": timing.commit(Path(__file__).parents[1]),
                "date": date.today().isoformat(),
            })  # fmt: skip
            print(json.dumps({k: round(v, 4) if isinstance(v, float) else v for k, v in rows[-1].items()}))
        if args.output:
            args.output.write_text(json.dumps(rows, indent=1) + "\n")
    if not rows:
        raise SystemExit(f"there are {there} GPUs: --cpu measures cores")


if __name__ == "__main__":
    main()
