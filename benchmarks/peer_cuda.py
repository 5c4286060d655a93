"""The published way to soft-DTW on a GPU, written anew, to be timed beside the library.

Maghoumi (Deep Recurrent Networks for Gesture Recognition and Synthesis, 2020, chapter 5) runs Algorithms
1 and 2 of Cuturi and Blondel (2017) along anti-diagonals on matrices D, R and E in memory: one block a pair,
one thread a cell of the diagonal, so 1024 steps at most. Packages that go further launch a kernel per
diagonal. Both are here, with torch for costs and their gradients as those packages have it. The interface is
that of peers.py; it needs torch and CuPy.
"""

import abc
import importlib

import numpy as np

KERNELS = r"""
__device__ float accumulated(const float *R, long long i, long long j, long long m) {
  if (i < 0 || j < 0) return i == j ? 0.0f : __int_as_float(0x7f800000);  // +infinity
  return R[i * m + j];
}

// R[i,j] = D[i,j] + softmin(R[i-1,j-1], R[i-1,j], R[i,j-1])
__device__ void forward_cell(const float *D, float *R, long long i, long long j, long long m, float gamma) {
  const float a = -accumulated(R, i - 1, j - 1, m) / gamma;
  const float b = -accumulated(R, i - 1, j, m) / gamma;
  const float c = -accumulated(R, i, j - 1, m) / gamma;
  const float most = i == 0 && j == 0 ? 0.0f : fmaxf(fmaxf(a, b), c);
  const float sum = i == 0 && j == 0 ? 1.0f : expf(a - most) + expf(b - most) + expf(c - most);
  R[i * m + j] = D[i * m + j] - gamma * (logf(sum) + most);
}

// What E[s] of a successor s passes on to the cell whose R is r.
__device__ float share(const float *D, const float *R, const float *E, long long s, float r, float gamma) {
  return E[s] * expf((R[s] - r - D[s]) / gamma);
}

__device__ void backward_cell(const float *D, const float *R, float *E, long long i, long long j, long long n,
                              long long m, float gamma) {
  const long long cell = i * m + j;
  const bool down = i + 1 < n, right = j + 1 < m;
  float sum = down || right ? 0.0f : 1.0f;
  if (down) sum += share(D, R, E, cell + m, R[cell], gamma);
  if (right) sum += share(D, R, E, cell + 1, R[cell], gamma);
  if (down && right) sum += share(D, R, E, cell + m + 1, R[cell], gamma);
  E[cell] = sum;
}

// One block a pair, one thread a row, all diagonals.
extern "C" __global__ void forward_block(const float *D, float *R, long long n, long long m, float gamma) {
  const long long pair = blockIdx.x * n * m, i = threadIdx.x;
  for (long long diagonal = 0; diagonal < n + m - 1; diagonal++) {
    const long long j = diagonal - i;
    if (j >= 0 && j < m) forward_cell(D + pair, R + pair, i, j, m, gamma);
    __syncthreads();
  }
}

extern "C" __global__ void backward_block(const float *D, const float *R, float *E, long long n, long long m,
                                          float gamma) {
  const long long pair = blockIdx.x * n * m, i = threadIdx.x;
  for (long long diagonal = n + m - 2; diagonal >= 0; diagonal--) {
    const long long j = diagonal - i;
    if (j >= 0 && j < m) backward_cell(D + pair, R + pair, E + pair, i, j, n, m, gamma);
    __syncthreads();
  }
}

// One diagonal of all pairs.
extern "C" __global__ void forward_diagonal(const float *D, float *R, long long n, long long m, float gamma,
                                            long long diagonal, long long first) {
  const long long pair = blockIdx.y * n * m, i = first + (long long)blockIdx.x * blockDim.x + threadIdx.x;
  const long long j = diagonal - i;
  if (i < n && j >= 0 && j < m) forward_cell(D + pair, R + pair, i, j, m, gamma);
}

extern "C" __global__ void backward_diagonal(const float *D, const float *R, float *E, long long n,
                                             long long m, float gamma, long long diagonal, long long first) {
  const long long pair = blockIdx.y * n * m, i = first + (long long)blockIdx.x * blockDim.x + threadIdx.x;
  const long long j = diagonal - i;
  if (i < n && j >= 0 && j < m) backward_cell(D + pair, R + pair, E + pair, i, j, n, m, gamma);
}
"""


class _Antidiagonal(abc.ABC):
    """What both ways share: costs and the chain rule in torch, kernels on torch's stream."""

    dtype, phases = "f32", {"value", "value+grad"}
    batched, magnitude = True, False

    def __init__(self, device):
        self._torch = importlib.import_module("torch")
        self._cupy = importlib.import_module("cupy")
        self._stream = self._torch.cuda.ExternalStream(device.stream.value)
        module = self._cupy.RawModule(code=KERNELS)
        names = (f"{sweep}_{way}" for sweep in ("forward", "backward") for way in ("block", "diagonal"))
        self._kernels = {name: module.get_function(name) for name in names}
        self.refusals = (self._torch.cuda.OutOfMemoryError,)
        self._function = self._make_function()

    @abc.abstractmethod
    def _cost(self, x, y):
        """The cost matrices of a batch, the way this peer computes them."""

    @abc.abstractmethod
    def _sweep(self, name, matrices, shape, gamma):
        """Runs one sweep's kernel over the matrices of a batch."""

    def _make_function(self):
        torch, sweep = self._torch, self._sweep

        class SoftDTW(torch.autograd.Function):
            @staticmethod
            def forward(ctx, cost, gamma):
                accumulated = torch.empty_like(cost)
                sweep("forward", (cost, accumulated), cost.shape, gamma)
                ctx.save_for_backward(cost, accumulated)
                ctx.gamma = gamma
                return accumulated[:, -1, -1].clone()

            @staticmethod
            def backward(ctx, grad_value):
                cost, accumulated = ctx.saved_tensors
                alignment = torch.empty_like(cost)
                sweep("backward", (cost, accumulated, alignment), cost.shape, ctx.gamma)
                return grad_value[:, None, None] * alignment, None

        return SoftDTW.apply

    def _launch(self, name, grid, block, matrices, *scalars):
        """On torch's current stream: autograd runs backward in a thread of its own."""
        stream = self._torch.cuda.current_stream().cuda_stream
        numbers = (*(matrix.data_ptr() for matrix in matrices), *scalars)
        arguments = tuple(np.int64(v) if isinstance(v, int) else v for v in numbers)
        with self._cupy.cuda.ExternalStream(stream):
            self._kernels[name](grid, block, arguments)

    def prepare(self, x, y, gamma, phase):
        torch = self._torch
        grad = phase == "value+grad"
        x, y = (torch.from_numpy(a).cuda().requires_grad_(grad) for a in (x, y))
        torch.cuda.synchronize()

        def work():
            with torch.cuda.stream(self._stream):
                value = self._function(self._cost(x, y), gamma)
                if grad:
                    torch.autograd.grad(value.sum(), (x, y))
            return value.detach()

        return work

    def extra_bytes(self, work):
        """Growth of what torch's allocator hands out while work runs, at its peak; gradients included."""
        cuda = self._torch.cuda
        cuda.synchronize()
        cuda.reset_peak_memory_stats()
        before = cuda.memory_allocated()
        work()
        cuda.synchronize()
        return cuda.max_memory_allocated() - before

    def release(self):
        self._torch.cuda.empty_cache()


class AntidiagonalBlock(_Antidiagonal):
    """Maghoumi's: one block a pair; costs by broadcasting, of which [B, N, M, d] is an intermediate."""

    name, longest = "anti-diagonals, one block a pair", 1024

    def _cost(self, x, y):
        return (x[:, :, None] - y[:, None]).square().sum(3)

    def _sweep(self, name, matrices, shape, gamma):
        batch, n, m = shape
        self._launch(f"{name}_block", (batch,), (n,), matrices, n, m, np.float32(gamma))


class AntidiagonalLaunches(_Antidiagonal):
    """One launch a diagonal, for any length; costs by a matrix product."""

    name, longest = "anti-diagonals, one launch each", 8192

    def _cost(self, x, y):
        squares = x.square().sum(2)[:, :, None] + y.square().sum(2)[:, None]
        return self._torch.baddbmm(squares, x, y.transpose(1, 2), alpha=-2)

    def _sweep(self, name, matrices, shape, gamma):
        batch, n, m = shape
        diagonals = range(n + m - 1) if name == "forward" else range(n + m - 2, -1, -1)
        for diagonal in diagonals:
            first, last = max(0, diagonal - m + 1), min(diagonal, n - 1)
            grid = (last - first) // 128 + 1, batch
            scalars = n, m, np.float32(gamma), diagonal, first
            self._launch(f"{name}_diagonal", grid, (128,), matrices, *scalars)


def available(device):
    """Instances of both ways, and a line about each that cannot run."""
    found, missing = [], []
    for cls in (AntidiagonalBlock, AntidiagonalLaunches):
        try:
            found.append(cls(device))
        except ImportError as error:
            missing.append(f"{cls.name}: {error}")
    return found, missing
