"""What a call costs beside the computation: microseconds per layer, from torch.nn.Module down to the C API.

    python benchmarks/overhead.py                         on the GPU if there is one, else on the CPU
    python benchmarks/overhead.py --shape 32,64,1 --shape 1,2,1 --library build/release/libsdtw.so

Rows of libsdtw.torch that end in ", in Python" are without its extension (python -m libsdtw.torch.build),
where it is built.

Prints one JSON object a line: layer, device, launch ("eager", or "graph" where a CUDA graph is replayed),
clock, B, N, d, problem (a line of lines.py), best_us, median_us, p10_us, p90_us. A step is forward and
backward, with gradients for x and y. Layers take turns, block by block, so that whatever else the machine
does meets all of them. --save FILE writes them to a file, --note TEXT says there what else the machine did.

On the CPU calls have one thread. On a GPU clock "wall" is the time of a call in a block of 100 that ends with
a synchronisation; "host" is the time until the host is free again, in blocks so short that it never waits for
the GPU. The C API is called through ctypes, which takes about 1 us itself, with all buffers at hand.
"""

import argparse
import ctypes as ct
import json
import sys
import time
from pathlib import Path

import numpy as np
import torch

import capi
from libsdtw import _core
from libsdtw.torch import SoftDTW, _direct, soft_dtw
from lines import line_of
from timing import commit, cpu_name

ROOT = Path(__file__).resolve().parent.parent
BLOCKS = 30
GAMMA = 1.0


class Nothing(torch.autograd.Function):
    """A step in which nothing is computed: the least that any step of autograd takes."""

    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        return x.new_empty(x.shape[0])

    @staticmethod
    def backward(ctx, grad):
        return ctx.saved_tensors


def torch_layers(x, y, lengths):
    """{name: call} of the layers of libsdtw.torch."""
    plain_x, plain_y, ones = x.detach(), y.detach(), torch.ones(x.shape[0], device=x.device)
    loss, options = SoftDTW(GAMMA, reduction="mean"), (None, None, GAMMA, "sqeuclidean")
    ops = torch.ops.libsdtw
    wanted = False, True, True  # no state for an alignment, but both gradients
    _, *kept = ops.forward(plain_x, plain_y, *options, *wanted)

    def gradients(value, *upstream):
        return torch.autograd.grad(value, (x, y), *upstream)

    def one_thread():
        with torch.autograd.set_multithreading_enabled(False):
            return gradients(loss(x, y))

    calls = {
        "torch: SoftDTW, mean, step": lambda: gradients(loss(x, y)),
        "torch: SoftDTW, mean, step, lengths": lambda: gradients(loss(x, y, lengths, lengths)),
        "torch: soft_dtw, step": lambda: gradients(soft_dtw(x, y, gamma=GAMMA), ones),
        "torch: soft_dtw, forward of a step": lambda: soft_dtw(x, y, gamma=GAMMA),
        "torch: soft_dtw, value only": lambda: soft_dtw(plain_x, plain_y, gamma=GAMMA),
        "torch: soft_dtw, value only, lengths": lambda: soft_dtw(
            plain_x, plain_y, gamma=GAMMA, x_lengths=lengths, y_lengths=lengths
        ),
    }
    return {
        **calls,
        **({f"{name}, in Python": in_python(call) for name, call in calls.items()} if _direct.native else {}),
        "torch: SoftDTW, mean, step, autograd in the calling thread": one_thread,
        "torch: operator forward": lambda: ops.forward.default(plain_x, plain_y, *options, *wanted),
        "torch: operator backward": lambda: ops.backward.default(
            ones, plain_x, plain_y, None, None, *kept, GAMMA, "sqeuclidean", True, True
        ),
        "torch: torch.nn.CTCLoss, step": ctc_step(x),
        "torch: a step that computes nothing": lambda: gradients(Nothing.apply(x, y), ones),
        "torch: a step that computes nothing, mean": lambda: gradients(Nothing.apply(x, y).mean()),
    }


def in_python(call):
    """The same call without the extension."""
    native = _direct.native

    def run():
        _direct.native = None
        result = call()
        _direct.native = native
        return result

    return run


def ctc_step(x):
    """A step of PyTorch's own loss of sequences, for as many and as long ones, with targets half as long."""
    batch, n, features = x.shape
    rng = torch.Generator().manual_seed(0)
    symbols = max(2, features) + 1
    targets = torch.randint(1, symbols, (batch, max(1, n // 2)), generator=rng).to(x.device)
    log_probs = torch.randn(n, batch, symbols, generator=rng).log_softmax(2).to(x.device).requires_grad_()
    lengths = [torch.full((batch,), size) for size in (n, targets.shape[1])]
    loss = torch.nn.CTCLoss(zero_infinity=True)
    return lambda: torch.autograd.grad(loss(log_probs, targets, *lengths), log_probs)


class Buffers:
    """Tensors for all outputs of a call, and the stream that it goes to."""

    def __init__(self, x, y, state, workspace):
        def memory(size):
            return torch.empty(size, dtype=torch.uint8, device=x.device)

        self.x, self.y = x.detach(), y.detach()
        self.value = torch.empty(x.shape[0], device=x.device)
        self.grad_x, self.grad_y = torch.empty_like(self.x), torch.empty_like(self.y)
        self.state, self.workspace = memory(state), memory(workspace)

    @staticmethod
    def stream(device):
        return torch.cuda.current_stream().cuda_stream if device == "cuda" else 0


def core_layers(x, y):
    """{name: call} of the extension module: the C API with Python's own conversion of arguments."""
    batch, n, features = x.shape
    device = x.device.type
    problem = _core.Problem(
        _core.METRICS["sqeuclidean"], _core.DTYPES["float32"], batch, n, n, features, GAMMA
    )
    exec_ = _core.Exec(_core.DEVICES[device], 1, Buffers.stream(device))
    sizes = _core.get_sizes(problem, exec_)
    b = Buffers(x, y, sizes.state, max(sizes.forward, sizes.backward))
    array = {name: (t.data_ptr(), t.stride()) for name, t in vars(b).items()}
    span = {name: (t.data_ptr(), t.numel()) for name, t in vars(b).items()}
    inputs = array["x"], array["y"], 0, 0
    memory = span["state"], span["workspace"]
    grads = array["grad_x"], array["grad_y"]
    return {
        "_core.forward": lambda _=b: _core.forward(problem, exec_, *inputs, array["value"][0], *memory),
        "_core.backward": lambda _=b: _core.backward(problem, exec_, *inputs, 0, *grads, *memory),
    }


def c_layers(library, x, y):
    """{name: call} of the C API, on the stream that is current when this is called."""
    (batch, n, features), device = x.shape, x.device.type
    problem = library.problem(batch_x=batch, batch_y=batch, n=n, m=n, features=features, gamma=GAMMA)
    where = {"device": capi.DEVICES[device], "num_threads": 1, "stream": Buffers.stream(device)}
    exec_, at_once = library.exec(**where), library.exec(**where, flags=capi.NO_STATE | capi.WITH_VALUE)
    sizes = library.sizes(problem, exec_)
    space = max(sizes.forward, sizes.backward, library.sizes(problem, at_once).backward)
    b = Buffers(x, y, sizes.state, space)
    buffers = library.buffers(value=b.value.data_ptr(), state=b.state.data_ptr(), state_bytes=sizes.state)
    buffers.workspace, buffers.workspace_bytes = b.workspace.data_ptr(), b.workspace.numel()
    for name in ("x", "y", "grad_x", "grad_y"):
        tensor = getattr(b, name)
        setattr(buffers, name, capi.Array(tensor.data_ptr(), (capi.i64 * 3)(*tensor.stride())))
    args = ct.byref(problem), ct.byref(buffers), ct.byref(exec_)
    stateless = library.buffers()
    ct.pointer(stateless)[0] = buffers
    stateless.state, stateless.state_bytes = None, 0
    one_call = ct.byref(problem), ct.byref(stateless), ct.byref(at_once)

    def step(_=b):
        library.call("sdtw_forward", *args)
        library.call("sdtw_backward", *args)

    return {
        "C: step": step,
        "C: step in one call": lambda _=b: library.call("sdtw_backward", *one_call),
        "C: sdtw_forward": lambda: library.call("sdtw_forward", *args),
        "C: sdtw_backward": lambda: library.call("sdtw_backward", *args),
    }


def captured(call):
    """A CUDA graph of the call, as a call that replays it."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        results = call()
    return lambda _=results: graph.replay()


def block_of(call, count, synchronize):
    """(wall, host) microseconds of a call, from a block of count calls."""
    synchronize()
    begin = time.perf_counter()
    for _ in range(count):
        call()
    host = time.perf_counter()
    synchronize()
    return (time.perf_counter() - begin) / count * 1e6, (host - begin) / count * 1e6


def report(layers, fields, rows):
    """Times the calls {name: call}, and prints and appends their rows."""
    on_gpu = fields["device"] == "cuda"
    synchronize = torch.cuda.synchronize if on_gpu else lambda: None
    # "host" is taken in blocks so short that the host never waits for the GPU.
    clocks = {"wall": (100, 0), "host": (20, 1)} if on_gpu else {"wall": (100, 0)}
    times = {(layer, clock): [] for layer in layers for clock in clocks}
    for call in layers.values():
        block_of(call, 20, synchronize)
    for _ in range(BLOCKS):
        for layer, call in layers.items():
            for clock, (count, which) in clocks.items():
                times[layer, clock].append(block_of(call, count, synchronize)[which])
    for (layer, clock), taken in times.items():
        best, p10, median, p90 = np.percentile(taken, [0, 10, 50, 90]).round(2)
        statistics = {"best_us": best, "median_us": median, "p10_us": p10, "p90_us": p90}
        rows.append({**fields, "layer": layer, "clock": clock, **statistics})
        print(json.dumps(rows[-1]), flush=True)


def measure(device, shape, library, rows):
    batch, n, features = shape
    rng = torch.Generator().manual_seed(0)
    x, y = (torch.randn(batch, n, features, generator=rng).to(device).requires_grad_() for _ in "xy")
    lengths = torch.full((batch,), n, device=device)
    fields = {"device": device, "launch": "eager", "B": batch, "N": n, "d": features}
    fields["problem"] = line_of(fields, gamma=GAMMA)
    layers = {
        **torch_layers(x, y, lengths),
        **core_layers(x, y),
        **(c_layers(library, x, y) if library else {}),
    }
    report(layers, fields, rows)
    if device == "cuda":
        fields["launch"] = "graph"
        names = ("torch: SoftDTW, mean, step", "torch: soft_dtw, step")
        graphs = {name: captured(layers[name]) for name in names}
        if library:  # prepared within the capture, whose stream is another
            graphs["C: step"] = captured(lambda: c_step(library, x, y))
        report(graphs, fields, rows)


def c_step(library, x, y):
    layers = c_layers(library, x, y)
    layers["C: step"]()
    return layers


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=("cpu", "cuda"))
    parser.add_argument("--shape", action="append", metavar="B,N,d", help="(default: 32,64,8 and 1,2,1)")
    parser.add_argument("--library", type=Path, help="libsdtw.so to measure (default: the release build's)")
    parser.add_argument("--save", type=Path, metavar="FILE", help="write the rows to a JSON file")
    parser.add_argument("--note", default="", help="what the file says of the machine beside its processor")
    args = parser.parse_args()
    device = args.device or ("cuda" if torch.cuda.is_available() else "cpu")
    torch.set_num_threads(1)
    try:
        library = capi.Library(args.library or capi.find_library(ROOT))
    except FileNotFoundError as error:
        library = None
        print(f"left out: the C API: {error}", file=sys.stderr)
    hardware = torch.cuda.get_device_name() if device == "cuda" else cpu_name()
    extension = "with" if _direct.native else "without"
    print(f"torch {torch.__version__}, {hardware}, {extension} the extension", file=sys.stderr)
    rows = []
    for text in args.shape or ("32,64,8", "1,2,1"):
        measure(device, tuple(map(int, text.split(","))), library, rows)
    if args.save:
        about = {"torch": torch.__version__, "hardware": hardware, "commit": commit(ROOT), "note": args.note}
        args.save.write_text(json.dumps({**about, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
