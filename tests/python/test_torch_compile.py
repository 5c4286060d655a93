# libsdtw.torch compiled and exported: gamma that changes, shapes that change, every saved state and gradient.
import itertools
import subprocess
import sys
import textwrap
import warnings

import pytest
import torch
from torch._dynamo import compiled_autograd
from torch._dynamo.testing import CompileCounterWithBackend

import libsdtw
from libsdtw.torch import (
    SoftDTW,
    _direct,
    sharp_soft_dtw,
    soft_dtw,
    soft_dtw_alignment,
    soft_dtw_cdist,
    soft_dtw_divergence,
)
from torch_data import grads, pair

OPS = torch.ops.libsdtw

pytestmark = [
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning", "ignore::FutureWarning"
    ),  # of the compiler's own
    pytest.mark.filterwarnings("ignore::UserWarning:torch"),
]


@pytest.fixture(autouse=True)
def fresh_compiler():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_gamma_may_change(device, backend):
    # Annealing: the first change compiles once more, with gamma as an input; no later one does.
    x, y = pair(device)
    counter = CompileCounterWithBackend(backend)
    compiled = torch.compile(
        lambda x, y, gamma: soft_dtw(2 * x, y, gamma=gamma), fullgraph=True, backend=counter
    )
    for k in range(12):
        gamma = 2.0 * 0.7**k
        value, expected = compiled(x, y, gamma), soft_dtw(2 * x, y, gamma=gamma)
        torch.testing.assert_close(value, expected)
        torch.testing.assert_close(grads(value, x, y), grads(expected, x, y))
    assert counter.frame_count == 2


def test_gamma_of_a_module_may_change(device):
    x, y = pair(device)
    loss = SoftDTW(gamma=1.0, reduction="mean")
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(loss, fullgraph=True, backend=counter)
    for k in range(12):
        loss.gamma = 0.7**k
        torch.testing.assert_close(compiled(x, y), soft_dtw(x, y, gamma=0.7**k, reduction="mean"))
    assert counter.frame_count <= 3


@pytest.mark.parametrize("options", [{}, {"step_weights": (2, 1, 1), "step_penalties": (0, 0.1, 0.2)}])
def test_module_made_in_a_program(device, options):
    x, y = pair(device)

    def function(x, y, gamma):
        return SoftDTW(gamma, **options)(x, y)

    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    for gamma in (1.0, 0.5, 0.25):
        torch.testing.assert_close(compiled(x, y, gamma), function(x, y, gamma))


def test_gamma_of_a_tensor_may_change(device):
    x, y = pair(device)
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(lambda x, y, g: soft_dtw(x, y, gamma=g), fullgraph=True, backend=counter)
    for k in range(4):
        gamma = torch.tensor(0.5**k, device=device, requires_grad=True)
        value, expected = compiled(x, y, gamma), soft_dtw(x, y, gamma=gamma)
        torch.testing.assert_close(value, expected)
        torch.testing.assert_close(grads(value, x, gamma), grads(expected, x, gamma))
    assert counter.frame_count == 1


def test_dynamic_shapes(device):
    counter = CompileCounterWithBackend("inductor")
    compiled = torch.compile(
        lambda x, y: soft_dtw(2 * x, y, gamma=0.5, reduction="mean"),
        dynamic=True,
        fullgraph=True,
        backend=counter,
    )
    for shape in [(3, 7, 6, 2), (4, 9, 5, 2), (5, 20, 30, 2)]:
        x, y = pair(device, shape=shape)
        value, expected = compiled(x, y), soft_dtw(2 * x, y, gamma=0.5, reduction="mean")
        torch.testing.assert_close(value, expected)
        torch.testing.assert_close(grads(value, x, y), grads(expected, x, y))
    assert counter.frame_count == 1


@pytest.mark.parametrize("function", [soft_dtw, soft_dtw_alignment, sharp_soft_dtw, soft_dtw_cdist])
def test_shapes_that_change(device, function):
    # Without fullgraph, which allows sizes of state that compilers cannot know: one graph all the same.
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(lambda x, y: function(2 * x, y).exp(), backend=counter)
    for shape in [(3, 7, 6, 2), (4, 9, 5, 2), (5, 20, 30, 2)]:
        x, y = pair(device, shape=shape)
        torch.testing.assert_close(compiled(x, y), function(2 * x, y).exp())
    assert counter.frame_count == 2  # one for the first shape, one for all


DYNAMIC = [  # where forward keeps state, or options are numbers, which dynamic=True makes inputs of
    ({}, torch.bfloat16, None),
    ({}, torch.float16, True),
    ({"metric": torch.cdist}, torch.float64, None),
    ({"metric": "cosine"}, torch.float64, True),
    ({"step_penalties": (0, 0.1, 0.2)}, torch.float64, True),
    ({"step_weights": (2, 1, 1), "step_penalties": (0, 0.1, 0.2), "gamma": 0.5}, torch.float64, True),
    ({"band": "itakura", "radius": 4.5, "normalize": True}, torch.float64, True),
]


@pytest.mark.parametrize(("options", "dtype", "dynamic"), DYNAMIC)
def test_training_with_shapes_that_change(device, options, dtype, dynamic):
    loss = SoftDTW(**options)
    backend = "inductor" if dtype == torch.bfloat16 else "aot_eager"
    compiled = torch.compile(loss, dynamic=dynamic, fullgraph=bool(dynamic), backend=backend)
    for shape in [(3, 7, 6, 2), (3, 9, 6, 2), (4, 9, 5, 2)]:
        x, y = pair(device, dtype, shape=shape)
        value, expected = compiled(x, y), loss(x, y)
        torch.testing.assert_close(value, expected)
        torch.testing.assert_close(grads(value, x, y), grads(expected, x, y))


def test_lengths_in_a_list(device):
    x, y = pair(device)
    compiled = torch.compile(lambda x, y, n: soft_dtw(x, y, x_lengths=n), fullgraph=True, backend="aot_eager")
    for lengths in ([7, 3, 5], [1, 0, 2], [4, 4, 4]):
        torch.testing.assert_close(compiled(x, y, lengths), soft_dtw(x, y, x_lengths=lengths))


@pytest.mark.parametrize("mode", ["default", "reduce-overhead", "max-autotune"])
def test_modes(device, mode):
    a, b = pair(device, torch.float32)
    lengths = torch.tensor([7, 3, 5], device=device)
    compiled = torch.compile(lambda a, b, n: soft_dtw(a * 2, b, x_lengths=n), mode=mode, fullgraph=True)
    for requires_grad, steps in itertools.product([True, False], range(3)):
        a, b = (t.detach().requires_grad_(requires_grad) for t in (a, b))
        expected = soft_dtw(a * 2, b, x_lengths=lengths)
        torch.testing.assert_close(compiled(a, b, lengths), expected)  # and no backward
        if requires_grad and steps:
            value = compiled(a, b, lengths)
            torch.testing.assert_close(grads(value, a, b), grads(expected, a, b))


def test_everything_compiles(device):
    x, y = pair(device)
    lengths = torch.tensor([7, 3, 5], device=device)

    def function(x, y, n):
        options = {"gamma": 0.5, "x_lengths": n}
        with torch.no_grad():
            alignment = soft_dtw_alignment(x, y, **options)
        return (
            soft_dtw(x, y, zero_infinity=True, **options).sum()
            + soft_dtw_divergence(x, y, **options).sum()
            + soft_dtw(x, y, metric=torch.cdist, **options).sum()
            + soft_dtw(x[:, None], y, **options).sum()
            + (alignment * torch.cdist(x, y)).sum()
        )

    value = torch.compile(function, fullgraph=True, backend="aot_eager")(x, y, lengths)
    expected = function(x, y, lengths)
    torch.testing.assert_close(value, expected)
    torch.testing.assert_close(grads(value, x, y), grads(expected, x, y))


def test_programs_that_compile_nothing_import_no_compiler():
    program = """
    import sys
    import torch
    from libsdtw.torch import soft_dtw

    x, y = torch.randn(2, 3, 5, 2).requires_grad_()
    soft_dtw(x, y).sum().backward()
    print("torch._dynamo" in sys.modules)
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "False\n"


def test_forward_mode_is_not_compiled(device):
    x, y = (t.detach() for t in pair(device))

    def function(x, tangent):
        return torch.func.jvp(lambda x: soft_dtw(x, y), (x,), (tangent,))

    given = x, torch.ones_like(x)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the program has more than one graph
        with pytest.raises(Exception, match="cannot compile forward mode"):
            torch.compile(function, backend="eager", fullgraph=True)(*given)
        torch._dynamo.reset()
        torch.testing.assert_close(torch.compile(function, backend="eager")(*given), function(*given))


CALLS = [  # options, and whether there are lengths
    ({"gamma": 0.5}, False),
    ({"gamma": 0.5, "reduction": "mean"}, True),
    ({"gamma": 0.25, "reduction": "mean"}, True),
    ({"gamma": 0, "reduction": "sum"}, True),
    ({"band": "absolute", "radius": 3, "zero_infinity": True}, True),
    ({"metric": "cosine", "normalize": True}, False),
    ({"metric": torch.cdist}, True),
]


@pytest.mark.parametrize("native", [True, False])
def test_compiled_autograd(device, native, monkeypatch):
    # A backward pass that is compiled, of a forward pass that is not. Sizes that change become variables.
    if native and _direct.native is None:
        pytest.skip("the extension is not built: python -m libsdtw.torch.build")
    if not native:
        monkeypatch.setattr(_direct, "native", None)
    shapes = {(3, 7, 6, 2): (True, True), (4, 9, 5, 2): (True, False), (5, 20, 30, 2): (True, True)}
    # Every shape with the first call, and each of the others with one: compiling takes all the time.
    calls = itertools.chain(
        itertools.product(shapes.items(), CALLS[:1]),
        zip(itertools.cycle(shapes.items()), CALLS[1:], strict=False),
    )
    for (shape, needs), (options, has_lengths) in calls:
        x, y = (t.detach().requires_grad_(n) for t, n in zip(pair(device, shape=shape), needs, strict=True))
        lengths = torch.arange(1, shape[0] + 1, device=device) if has_lengths else None

        def step(x, y, options=options, lengths=lengths):
            return (2 * soft_dtw(x, y, x_lengths=lengths, **options)).sum()

        with compiled_autograd._enable(torch.compile(backend="aot_eager", fullgraph=True)):
            step(x, y).backward()
        given = [t for t in (x, y) if t.requires_grad]
        expected = torch.autograd.grad(step(x, y), given)
        for t, of_t in zip(given, expected, strict=True):
            torch.testing.assert_close(t.grad, of_t)


def test_compiled_training_step(device):
    x, y = pair(device, torch.float32)
    model = torch.nn.Linear(2, 2).to(device)

    def step(model):
        SoftDTW(gamma=0.5, reduction="mean")(model(x.detach()), y.detach()).backward()
        return [p.grad for p in model.parameters()]

    expected = [grad.clone() for grad in step(model)]
    model.zero_grad()
    with torch._dynamo.config.patch(compiled_autograd=True):
        result = torch.compile(step, backend="inductor")(model)
    torch.testing.assert_close(result, expected)


def test_compiled_programs_know_the_version(device):
    # Inductor keeps programs on disk; those of another version of the library know other sizes of state.
    x, y = pair(device)
    keys = []

    def backend(graph, _):
        keys.extend(arg for node in graph.graph.nodes for arg in node.args if isinstance(arg, str))
        return graph.forward

    torch.compile(lambda x, y: soft_dtw(x, y, band="absolute", radius=3), backend=backend)(x, y)
    assert keys == [f"sqeuclidean;absolute;3.0;1.0,1.0,1.0;0.0,0.0,0.0@{libsdtw._core.version()}"]


def test_ahead_of_time(device, tmp_path):
    x, y = (t.detach().float() for t in pair(device))
    batch = torch.export.Dim("batch", min=2, max=64)
    loss = SoftDTW(gamma=0.5)
    program = torch.export.export(loss, (x, y), dynamic_shapes=({0: batch}, {0: batch}))
    torch.export.save(program, tmp_path / "program.pt2")
    torch.testing.assert_close(torch.export.load(tmp_path / "program.pt2").module()(x, y), loss(x, y))
    compile_package = getattr(torch._inductor, "aoti_compile_and_package", None)
    if compile_package is None:
        pytest.skip("this PyTorch has no packages of AOTInductor")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of PyTorch's own about its tree of arguments
        package = compile_package(program, package_path=str(tmp_path / "package.pt2"))
        run = torch._inductor.aoti_load_package(package)
    for count in (3, 2):
        torch.testing.assert_close(run(x[:count], y[:count]), loss(x[:count], y[:count]))


def test_export(device):
    x, y = (t.detach() for t in pair(device))
    batch = torch.export.Dim("batch", min=2, max=64)
    steps = torch.export.Dim("steps", min=2, max=512)
    program = torch.export.export(
        SoftDTW(gamma=0.5, reduction="mean"),
        (x, y),
        dynamic_shapes=({0: batch, 1: steps}, {0: batch}),
        strict=False,
    )
    called = [str(node.target) for node in program.graph.nodes if "libsdtw" in str(node.target)]
    assert called == ["libsdtw.forward.default"]
    for shape in [(3, 7, 6, 2), (5, 30, 6, 2)]:
        x, y = (t.detach() for t in pair(device, shape=shape))
        expected = soft_dtw(x, y, gamma=0.5, reduction="mean")
        torch.testing.assert_close(program.module()(x, y), expected)


@pytest.mark.usefixtures("filled_memory")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("needs", [(True, True), (True, False), (False, True)])
def test_opcheck(device, dtype, needs):
    x, y = (t.detach().to(dtype) for t in pair(device))
    lengths = torch.tensor([7, 3, 5], device=device), torch.tensor([6, 4, 5], device=device)
    for n, m in itertools.product([None, lengths[0]], [None, lengths[1]]):
        value, *kept = OPS.forward(x, y, n, m, 0.5, "sqeuclidean", False, *needs)
        args = torch.ones_like(value), x, y, n, m, *kept, 0.5, "sqeuclidean", *needs
        torch.library.opcheck(OPS.backward.default, args, test_utils=("test_schema", "test_faketensor"))
    given = [t.clone().requires_grad_(need) for t, need in zip((x, y), needs, strict=True)]
    for asked in ((True, False, False), (False, False, False), (False, *needs), (True, *needs)):
        torch.library.opcheck(OPS.forward.default, (*given, *lengths, 0.5, "sqeuclidean", *asked))
