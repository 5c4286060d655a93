# Types of the extension module libsdtw._core; see module.cpp.
from collections.abc import Sequence
from typing import Protocol, TypeAlias

_Array: TypeAlias = tuple[int, tuple[int, ...]]  # address, three strides in elements
_Memory: TypeAlias = tuple[int, int]  # address, bytes

METRICS: dict[str, int]
DTYPES: dict[str, int]
DEVICES: dict[str, int]
BANDS: dict[str, int]
ALL_PAIRS: int
SYMMETRIC: int

class SdtwError(RuntimeError):
    status: int

class InvalidArgumentError(SdtwError, ValueError): ...
class InvalidStructError(SdtwError, ValueError): ...
class UnsupportedError(SdtwError, NotImplementedError): ...
class BufferTooSmallError(SdtwError, ValueError): ...
class NotBuiltError(SdtwError): ...
class NoDeviceError(SdtwError): ...
class CudaError(SdtwError): ...
class InternalError(SdtwError): ...

class Problem:
    def __init__(
        self,
        metric: int,
        dtype: int,
        batch: int,
        n: int,
        m: int,
        features: int,
        gamma: float,
        length_bits: int = 64,
        flags: int = 0,
        batch_y: int | None = None,
        band: int = 0,
        band_radius: float = 0.0,
        step_weight: Sequence[float] = (1, 1, 1),
        step_penalty: Sequence[float] = (0, 0, 0),
    ) -> None: ...

class Exec:
    def __init__(
        self,
        device: int = 0,
        num_threads: int = 0,
        stream: int = 0,
        no_state: bool = False,
        deterministic: bool = False,
        with_value: bool = False,
    ) -> None: ...

class Sizes:
    @property
    def state(self) -> int: ...
    @property
    def forward(self) -> int: ...
    @property
    def backward(self) -> int: ...
    @property
    def jvp(self) -> int: ...
    @property
    def alignment(self) -> int: ...

class _Tensor(Protocol):
    def data_ptr(self) -> int: ...
    def stride(self) -> tuple[int, ...]: ...
    def numel(self) -> int: ...
    @property
    def nbytes(self) -> int: ...

class Plan:
    def __init__(self, problem: Problem, exec: Exec) -> None: ...
    @property
    def structs(self) -> tuple[int, int, int]: ...
    @property
    def state_bytes(self) -> int: ...
    @property
    def forward_bytes(self) -> int: ...
    @property
    def backward_bytes(self) -> int: ...
    @property
    def jvp_bytes(self) -> int: ...
    @property
    def alignment_bytes(self) -> int: ...
    def forward(
        self,
        x: _Tensor,
        y: _Tensor | None,
        x_len: _Tensor | None,
        y_len: _Tensor | None,
        value: _Tensor,
        state: _Tensor | None,
        workspace: _Tensor | None,
    ) -> None: ...
    def add_up(self, value: _Tensor, factor: float, sum: _Tensor) -> None: ...
    def backward(
        self,
        x: _Tensor,
        y: _Tensor | None,
        x_len: _Tensor | None,
        y_len: _Tensor | None,
        grad_value: _Tensor,
        grad_x: _Tensor | None,
        grad_y: _Tensor | None,
        state: _Tensor | None,
        workspace: _Tensor | None,
    ) -> None: ...
    def value_and_gradients(
        self,
        x: _Tensor,
        y: _Tensor | None,
        x_len: _Tensor | None,
        y_len: _Tensor | None,
        value: _Tensor,
        grad_x: _Tensor | None,
        grad_y: _Tensor | None,
    ) -> None: ...
    def are_products(self, grad_value: _Tensor, grad_x: _Tensor | None, grad_y: _Tensor | None) -> bool: ...
    def alignment(
        self,
        x: _Tensor,
        y: _Tensor | None,
        x_len: _Tensor | None,
        y_len: _Tensor | None,
        alignment: _Tensor,
        state: _Tensor | None,
        workspace: _Tensor | None,
    ) -> None: ...
    def jvp(
        self,
        x: _Tensor,
        y: _Tensor | None,
        x_len: _Tensor | None,
        y_len: _Tensor | None,
        tangent_x: _Tensor | None,
        tangent_y: _Tensor | None,
        grad_value: _Tensor,
        value_tangent: _Tensor,
        grad_x_tangent: _Tensor | None,
        grad_y_tangent: _Tensor | None,
        workspace: _Tensor | None,
    ) -> None: ...

def functions() -> dict[str, int]: ...
def kept_functions() -> dict[str, int]: ...
def version() -> int: ...
def build_info() -> str: ...
def device_available(device: int) -> None: ...
def get_sizes(problem: Problem, exec: Exec) -> Sizes: ...
def describe(problem: Problem, exec: Exec) -> str: ...
def forward(
    problem: Problem,
    exec: Exec,
    x: _Array,
    y: _Array | None,
    x_len: int,
    y_len: int,
    value: int,
    state: _Memory | None,
    workspace: _Memory,
) -> None: ...
def backward(
    problem: Problem,
    exec: Exec,
    x: _Array,
    y: _Array | None,
    x_len: int,
    y_len: int,
    grad_value: int,
    grad_x: _Array | None,
    grad_y: _Array | None,
    state: _Memory | None,
    workspace: _Memory,
    value: int = 0,
) -> None: ...
def alignment(
    problem: Problem,
    exec: Exec,
    x: _Array,
    y: _Array | None,
    x_len: int,
    y_len: int,
    alignment: _Array,
    state: _Memory | None,
    workspace: _Memory,
    value: int = 0,
) -> None: ...
def jvp(
    problem: Problem,
    exec: Exec,
    x: _Array,
    y: _Array | None,
    x_len: int,
    y_len: int,
    tangent_x: _Array | None,
    tangent_y: _Array | None,
    grad_value: int,
    value_tangent: int,
    grad_x_tangent: _Array | None,
    grad_y_tangent: _Array | None,
    workspace: _Memory,
    value: int = 0,
) -> None: ...
