# libsdtw.torch on a GPU: graphs, streams, devices, memory, agreement with the CPU. The tests of the other
# files run there too.
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from libsdtw.numpy import soft_dtw_alignment, soft_dtw_grad
from libsdtw.torch import SoftDTW, soft_dtw, soft_dtw_cdist
from torch_data import grads, pair

pytestmark = pytest.mark.usefixtures("cuda")

SHAPE = 8, 70, 55, 3
SLEEP = (
    200_000_000  # cycles of the GPU, about 0.1 s: far more than the host needs for what is queued behind it
)


def lengths_of(cuda, seed=0):
    """Lengths of x and y of SHAPE, some of them 0 or full."""
    rng = np.random.default_rng(seed)
    batch, n, m, _ = SHAPE
    x, y = rng.integers(0, n, batch, endpoint=True), rng.integers(0, m, batch, endpoint=True)
    x[0], y[0], x[1] = n, m, 0
    return torch.from_numpy(x).to(cuda), torch.from_numpy(y).to(cuda)


def training_step(x, y, lengths, optimizer):
    """One step of descent on x, as a training loop has it; returns the loss."""
    optimizer.zero_grad(set_to_none=False)
    # The pair with one empty series has value infinity, and gradient 0: as torch's own losses have it.
    values = soft_dtw(x, y, gamma=0.5, x_lengths=lengths[0], y_lengths=lengths[1])
    loss = torch.where(values.isfinite(), values, 0).mean()
    loss.backward()
    optimizer.step()
    return loss


def test_training_step_in_a_cuda_graph(cuda):
    x, y = pair(cuda, torch.float32, SHAPE)
    y = y.detach()
    x.grad = torch.zeros_like(x)
    lengths = lengths_of(cuda)
    optimizer = torch.optim.SGD([x], lr=0.01)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):  # the warm-up that graph capture asks for
        for _ in range(3):
            training_step(x, y, lengths, optimizer)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = training_step(x, y, lengths, optimizer)

    for seed in (1, 2, 3):
        new_x, new_y = (t.detach() for t in pair(cuda, torch.float32, SHAPE, seed))
        new_lengths = lengths_of(cuda, seed)
        with torch.no_grad():
            for old, new in zip((x, y, *lengths), (new_x, new_y, *new_lengths), strict=True):
                old.copy_(new)
        graph.replay()
        eager_x = new_x.clone().requires_grad_()
        eager_loss = training_step(eager_x, new_y, new_lengths, torch.optim.SGD([eager_x], lr=0.01))
        assert eager_loss.isfinite()
        assert eager_x.grad.any()
        torch.testing.assert_close(
            (loss, x.grad, x.detach()), (eager_loss, eager_x.grad, eager_x.detach()), rtol=0, atol=0
        )


def test_lengths_of_a_captured_graph_may_change(cuda):
    # Also to 0 and to lengths out of range.
    x, y = pair(cuda, torch.float64, SHAPE)
    lengths = [torch.full((SHAPE[0],), size, device=cuda) for size in SHAPE[1:3]]
    soft_dtw(x, y, x_lengths=lengths[0], y_lengths=lengths[1])
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph), torch.no_grad():
        values = soft_dtw(x, y, x_lengths=lengths[0], y_lengths=lengths[1])
    for n, m in [(0, 0), (1, 55), (70, 1), (33, 32), (71, 5), (70, 55)]:
        lengths[0].fill_(n)
        lengths[1].fill_(m)
        graph.replay()
        expected = soft_dtw(x.detach(), y.detach(), x_lengths=lengths[0], y_lengths=lengths[1])
        torch.testing.assert_close(values, expected, rtol=0, atol=0, equal_nan=True)


def test_current_stream_is_honoured(cuda):
    # On the side stream the inputs get their values late: another stream would read what was there before.
    x, y = pair(cuda, torch.float32, SHAPE)
    expected = soft_dtw(x, y)
    expected_grads = grads(expected, x, y)
    late_x, late_y = (torch.zeros_like(t).requires_grad_() for t in (x, y))
    side = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        torch.cuda._sleep(SLEEP)
        with torch.no_grad():
            late_x.copy_(x)
            late_y.copy_(y)
        value = soft_dtw(late_x, late_y)
        results = value, *grads(value, late_x, late_y)
    side.synchronize()
    torch.testing.assert_close(results, (expected, *expected_grads), rtol=0, atol=0)


@pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype")
def test_host_waits_for_nothing(cuda):
    x, y = pair(cuda, torch.float32, SHAPE)
    lengths = lengths_of(cuda)

    gamma = torch.tensor(0.5, device=cuda, requires_grad=True)
    short = lengths[0].to(torch.int16)

    def step():
        value = soft_dtw(x, y, x_lengths=lengths[0], y_lengths=lengths[1])
        learned = soft_dtw(x, y, gamma=gamma, x_lengths=short, zero_infinity=True, normalize=True)
        return grads(value, x, y), grads(learned, x, gamma)

    step()
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        torch.cuda._sleep(SLEEP)
        step()
        assert not torch.cuda.current_stream().query()  # the host is here while the GPU still sleeps
    finally:
        torch.cuda.set_sync_debug_mode("default")
    torch.cuda.synchronize()


def test_all_pairs_take_bounded_memory(cuda):
    x, y = pair(cuda, torch.float32, (256, 200, 200, 3))
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    grads(soft_dtw_cdist(x, y), x, y)
    # The state of all pairs, and gradients of each, would take more than 1 GB.
    assert torch.cuda.max_memory_allocated() - before < 256 << 20


def test_no_memory_is_kept(cuda):
    x, y = (t.detach() for t in pair(cuda, torch.float32, SHAPE))

    def step(steps):
        for _ in range(steps):
            a, b = x.clone().requires_grad_(), y.clone().requires_grad_()
            grads(soft_dtw(a, b, reduction="mean"), a, b)
            soft_dtw(x, y)

    step(1)
    before = torch.cuda.memory_allocated()
    step(3)
    assert torch.cuda.memory_allocated() == before
    with torch.no_grad():
        value = soft_dtw(x, y)
    assert (
        torch.cuda.memory_allocated() - before <= 512
    )  # of the allocator's blocks the one that has the values
    assert value.shape == SHAPE[:1]


@pytest.mark.parametrize("moved", ["x", "y", "x_lengths", "y_lengths"])
def test_arguments_on_two_devices(cuda, moved):
    x, y = (t.detach() for t in pair(cuda, torch.float32, SHAPE))
    arguments = dict(zip(("x", "y", "x_lengths", "y_lengths"), (x, y, *lengths_of(cuda)), strict=True))
    soft_dtw(**arguments)
    here = arguments["x"].device
    arguments[moved] = arguments[moved].cpu()
    named = {
        "x": f"x is on device cpu and y on {here}",
        "y": f"x is on device {here} and y on cpu",
    }
    message = named.get(moved, f"{moved} is on device cpu and x on {here}")
    with pytest.raises(ValueError, match=message):
        soft_dtw(**arguments)


def test_second_gpu(cuda):
    if torch.cuda.device_count() < 2:
        pytest.skip("PyTorch sees one GPU")
    x, y = pair("cuda:0", torch.float32, SHAPE)
    other_x, other_y = (t.detach().to("cuda:1").requires_grad_() for t in (x, y))
    value, other = soft_dtw(x, y), soft_dtw(other_x, other_y)
    assert other.device == torch.device("cuda:1")
    assert torch.cuda.current_device() == 0
    torch.testing.assert_close(other.cpu(), value.cpu())
    for ours, want in zip(grads(other, other_x, other_y), grads(value, x, y), strict=True):
        torch.testing.assert_close(ours.cpu(), want.cpu())
    with pytest.raises(ValueError, match="x is on device cuda:0 and y on cuda:1"):
        soft_dtw(x, other_y)


def test_runs_repeat_bit_for_bit(cuda):
    x, y = pair(cuda, torch.float32, (64, 200, 150, 5))
    lengths = {
        "x_lengths": torch.arange(64, device=cuda) * 3,
        "y_lengths": torch.arange(150, 86, -1, device=cuda),
    }

    def results():
        value = soft_dtw(x, y, gamma=0.1, **lengths)
        return value, *grads(value, x, y)

    first = results()
    for _ in range(5):
        torch.testing.assert_close(results(), first, rtol=0, atol=0)


def test_module_trains_on_the_gpu_as_on_the_cpu(cuda):
    losses = {}
    for device in ("cpu", cuda):
        x, y = pair(device, torch.float64, (4, 30, 20, 2))
        y, lengths = y.detach(), torch.tensor([30, 7, 1, 22], device=device)
        optimizer, loss = torch.optim.Adam([x], lr=0.05), SoftDTW(gamma=0.1, reduction="mean")
        losses[str(device)] = []
        for _ in range(20):
            optimizer.zero_grad()
            value = loss(x, y, lengths)
            value.backward()
            optimizer.step()
            losses[str(device)].append(value.item())
    assert losses["cuda"] == pytest.approx(losses["cpu"], rel=1e-9)


def placed(tensor, layout):
    """The same numbers on the same device in another place."""
    if layout == "transposed":
        return tensor.permute(2, 1, 0).contiguous().permute(2, 1, 0)
    if layout == "spaced":
        space = torch.full((*tensor.shape[:2], 3 * tensor.shape[2] + 1), torch.nan).to(tensor)
        return space[:, :, 1::3].copy_(tensor)
    return tensor


# Around the sizes of warps, strips and tiles, and anything between.
sizes = st.one_of(
    st.sampled_from([1, 2, 31, 32, 33, 63, 64, 65, 127, 128, 129, 256, 257]), st.integers(1, 300)
)
layouts = st.sampled_from(["contiguous", "transposed", "spaced"])


@st.composite
def batches(draw):
    """x, y, lengths (or {}), gamma: arrays, and the layouts that the GPU is to have of x and y."""
    batch, d = draw(st.integers(1, 6)), draw(st.sampled_from([1, 2, 3, 8, 9, 17, 64]))
    n, m = draw(sizes), draw(sizes)
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    scale = draw(st.sampled_from([0.01, 1.0, 3.0]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    x, y = ((scale * rng.normal(size=(batch, size, d))).astype(dtype) for size in (n, m))
    lengths = {}
    if draw(st.booleans()):
        integer = draw(st.sampled_from([np.int32, np.int64]))
        lengths["x_lengths"] = rng.integers(0, n, batch, integer, endpoint=True)
        lengths["y_lengths"] = rng.integers(0, m, batch, integer, endpoint=True)
    gamma = draw(st.sampled_from([0.01, 0.1, 1.0, 10.0, 1000.0]))
    return x, y, lengths, gamma, (draw(layouts), draw(layouts))


@given(case=batches())
def test_agrees_with_the_cpu_in_float64(cuda, case):
    x, y, lengths, gamma, layout = case
    wide = x.astype(np.float64), y.astype(np.float64)
    want = soft_dtw_grad(*wide, gamma=gamma, **lengths)
    alignment = soft_dtw_alignment(*wide, gamma=gamma, **lengths)[..., None]
    difference = wide[0][:, :, None] - wide[1][:, None]
    costs = (alignment * difference**2).sum((1, 2, 3))
    terms = 2 * alignment * np.abs(difference)
    # Bounds and scales of sdtw.h and of the C++ tests; float64's twice, as the CPU has an error of its own.
    value_bound, grad_bound = (2e-7, 2e-5) if x.dtype == np.float32 else (2e-13, 2e-10)
    longest = [lengths.get(f"{name}_lengths", len(t[0])) for name, t in (("x", x), ("y", y))]
    value_scale = np.abs(want[0]) + costs + gamma * np.sqrt(np.add(*longest))

    tensors = [
        placed(torch.from_numpy(a).to(cuda), k).requires_grad_() for a, k in zip((x, y), layout, strict=True)
    ]
    given_lengths = {name: torch.from_numpy(values).to(cuda) for name, values in lengths.items()}
    value = soft_dtw(*tensors, gamma=gamma, **given_lengths)
    ours = [t.detach().cpu().double().numpy() for t in (value, *grads(value, *tensors))]

    finite = np.isfinite(want[0])
    np.testing.assert_array_equal(ours[0][~finite], want[0][~finite])
    assert (np.abs(ours[0][finite] - want[0][finite]) <= (value_bound * value_scale)[finite]).all()
    grad_scale = np.maximum(terms.sum(2).max((1, 2)), terms.sum(1).max((1, 2)))[:, None, None]
    for grad, expected in zip(ours[1:], want[1:], strict=True):
        assert (np.abs(grad - expected) <= grad_bound * grad_scale).all()
