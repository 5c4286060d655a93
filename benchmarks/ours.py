"""One case prepared for the library: buffers are allocated once, so that only the C calls are timed."""

import contextlib
import ctypes as ct

import numpy as np

import capi

PHASES = {
    "value": ("forward",),
    "value+grad": ("forward", "backward"),
    "value+alignment": ("forward", "alignment"),
    "one call": ("backward",),  # for values and gradients
}
FLAGS = {"value": capi.NO_STATE, "one call": capi.NO_STATE | capi.WITH_VALUE}


def available_isas(library):
    """Names of the instruction sets that this processor and this build of the library have, fastest first."""
    problem = library.problem(batch_x=1, batch_y=1, n=1, m=1, features=1)
    found = []
    for isa in ("avx512", "avx2", "neon", "baseline"):
        with contextlib.suppress(capi.SdtwError):
            library.sizes(problem, library.exec(cpu_isa=capi.ISAS[isa]))
            found.append(isa)
    return found


class Prepared:
    """The calls of one phase of one case. run() makes them; output() reads what they wrote."""

    def __init__(self, library, device, case, data, dtype, phase, isa, threads):
        self._library, self._device, self._keep = library, device, []
        self._calls = [f"sdtw_{name}" for name in PHASES[phase]]
        element = np.dtype({"f32": np.float32, "f64": np.float64}[dtype])
        self._problem = library.problem(
            metric=capi.METRICS[case.metric], dtype=capi.DTYPES[dtype], gamma=case.gamma,
            batch_x=case.B, batch_y=case.B, n=case.N, m=case.M, features=case.d,
        )  # fmt: skip
        self._exec = library.exec(
            device=capi.DEVICES[device.name], num_threads=threads,
            cpu_isa=capi.ISAS[isa], flags=FLAGS.get(phase, 0), stream=device.stream,
        )  # fmt: skip
        self._buffers = library.buffers()
        self._inputs(case, data)
        self._allocate_outputs(case, phase, element)
        sizes = library.sizes(self._problem, self._exec)
        workspace = max(getattr(sizes, name) for name in PHASES[phase])
        self.extra_bytes = sizes.state + workspace
        self._buffers.state, self._buffers.state_bytes = self._empty(sizes.state), sizes.state
        self._buffers.workspace, self._buffers.workspace_bytes = self._empty(workspace), workspace

    def _hold(self, buffer):
        self._keep.append(buffer)
        return self._device.address(buffer)

    def _empty(self, nbytes):
        return self._hold(self._device.empty(nbytes)) if nbytes else None

    def _inputs(self, case, data):
        x, y = (data.x, data.y) if case.fused else (data.cost, None)
        self._buffers.x = _array(self._hold(self._device.put(x)), x.shape)
        if y is not None:
            self._buffers.y = _array(self._hold(self._device.put(y)), y.shape)
        if data.x_len is not None:
            self._buffers.x_len = self._hold(self._device.put(data.x_len))
            self._buffers.y_len = self._hold(self._device.put(data.y_len))

    def _allocate_outputs(self, case, phase, element):
        self._element, self._outputs = element, {}
        shapes = {"value": (case.B,)}
        if phase in ("value+grad", "one call"):
            shapes["grad_x"] = (case.B, case.N, case.d or case.M)
            if case.fused:
                shapes["grad_y"] = (case.B, case.M, case.d)
        elif phase == "value+alignment":
            shapes["alignment"] = (case.B, case.N, case.M)
        for name, shape in shapes.items():
            buffer = self._device.empty(int(np.prod(shape)) * element.itemsize)
            address = self._hold(buffer)
            setattr(self._buffers, name, address if name == "value" else _array(address, shape))
            self._outputs[name] = buffer, shape

    def run(self):
        for function in self._calls:
            self._library.call(
                function, ct.byref(self._problem), ct.byref(self._buffers), ct.byref(self._exec)
            )

    def output(self, name):
        """What run() wrote to value, grad_x, grad_y or alignment, as a NumPy array."""
        buffer, shape = self._outputs[name]
        return self._device.get(buffer, self._element).reshape(shape)


def _array(address, shape):
    """An sdtw_in or sdtw_out of a C-ordered array of three dimensions."""
    return capi.Array(address, (capi.i64 * 3)(shape[1] * shape[2], shape[2], 1))
