// Host side of launching: the device's limits, one way to launch a kernel, and the launchers that backend.cu calls.
// Everything is put on the caller's stream and nothing waits, so a call can be captured into a graph. Every CUDA error
// becomes a library error (check), and none is left for the caller's next cudaGetLastError.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>

#include "cuda/args.h"
#include "cuda/room.h"
#include "error.h"

namespace sdtw::cuda {

inline void check(cudaError_t error, const char *what) {
  if (error != cudaSuccess) {
    cudaGetLastError();  // the error is reported here: the caller's next check must not find it again
    fail(SDTW_STATUS_CUDA_ERROR, "%s: %s", what, cudaGetErrorString(error));
  }
}

template <class T>
T *at(void *base, size_t offset) {
  return reinterpret_cast<T *>(static_cast<unsigned char *>(base) + offset);
}

constexpr size_t kept_for_static = 64;  // bytes of a block's shared memory

// pair_kernels.cu. The compute capability that the code was compiled for which the current device runs, times ten.
int compiled_for();

struct Device {
  int id, multiprocessors;
  Room room;
  size_t shared_memory;  // bytes of dynamic shared memory for a block, besides kept_for_static
  size_t shared_memory_of_multiprocessor;
  int times_slower_in_float64;
  bool avoids_float64;  // the code that it runs (room.h)
  bool waits;           // whether wait_for_kernel_before was compiled into that code, not whether the GPU has it
};
// Of so many GPUs a thread keeps what the driver has said.
constexpr int devices_remembered = 16;

// The current device. Its attributes do not change as long as the process runs, so a thread asks the driver once.
inline Device current_device() {
  static thread_local Device known_of[devices_remembered] = {};
  int id = 0;
  check(cudaGetDevice(&id), "cudaGetDevice");
  Device &known = known_of[id % devices_remembered];
  if (known.multiprocessors > 0 && id == known.id) return known;
  int multiprocessors = 0, shared_memory = 0, shared_memory_of_all = 0, times_slower = 0;
  check(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, id), "cudaDeviceGetAttribute");
  check(cudaDeviceGetAttribute(&shared_memory, cudaDevAttrMaxSharedMemoryPerBlockOptin, id), "cudaDeviceGetAttribute");
  check(cudaDeviceGetAttribute(&shared_memory_of_all, cudaDevAttrMaxSharedMemoryPerMultiprocessor, id),
        "cudaDeviceGetAttribute");
  check(cudaDeviceGetAttribute(&times_slower, cudaDevAttrSingleToDoublePrecisionPerfRatio, id),
        "cudaDeviceGetAttribute");
  // Code may be compiled for a later GPU when it is loaded, and has the kernels for what its own has.
  const int code = compiled_for();
  if (code < 80) shared_memory = std::min(shared_memory, 64 * 1024);
  if (code >= 120) shared_memory = std::min(shared_memory, 99 * 1024);
  if (!(rooms_of_code(code) & room_of_bytes(shared_memory)))
    fail(SDTW_STATUS_NO_DEVICE,
         "this GPU has %d bytes of shared memory for a block: the library has code for it of compute capability %d.%d "
         "alone, which needs more. Build it for the GPU's own",
         shared_memory, code / 10, code % 10);
#ifdef SDTW_CUDA_SHARED_MEMORY  // to test on a large GPU what smaller ones get
  shared_memory = std::min(shared_memory, SDTW_CUDA_SHARED_MEMORY);
  shared_memory_of_all = std::min(shared_memory_of_all, SDTW_CUDA_SHARED_MEMORY + 1024);
#endif
  return known = {id,
                  multiprocessors,
                  room_of_bytes(shared_memory),
                  static_cast<size_t>(shared_memory) - kept_for_static,
                  static_cast<size_t>(shared_memory_of_all),
                  times_slower,
                  code_avoids_float64(code),
                  code >= 90};
}

// A kernel that was chosen has to be one that was compiled for the GPU.
inline void require(Room rooms) {
  if (!(rooms & current_device().room))
    fail(SDTW_STATUS_INTERNAL, "the kernel is not for GPUs with %zu bytes of shared memory for a block",
         current_device().shared_memory);
}

// Whether costs of many features are to be computed in integers (costs/slice_costs.cuh), if these fit. They are where
// float64, half as fast as float32 on GPUs for data centres, is a 32nd or a 64th, and where it has no room.
inline bool prefers_slices() {
  const Device device = current_device();
  return device.avoids_float64 || device.times_slower_in_float64 > 4 || device.room <= room_of_99;
}

// The number that the driver has given to the current context, and gives to no other; 0 if it does not say.
inline unsigned long long current_context() {
  using Function = int (*)(void *context, unsigned long long *id);
  static const Function ask = [] {
    void *found = nullptr;
    cudaDriverEntryPointQueryResult result;
    if (cudaGetDriverEntryPointByVersion("cuCtxGetId", &found, 12000, cudaEnableDefault, &result) != cudaSuccess)
      cudaGetLastError();
    return reinterpret_cast<Function>(found);
  }();
  unsigned long long id = 0;
  return ask && ask(nullptr, &id) == 0 ? id : 0;
}

[[noreturn]] inline void fail_for_memory(size_t needed) {
  fail(SDTW_STATUS_UNSUPPORTED,
       "this GPU has %zu bytes of shared memory for a block: this problem's kernels need %zu in this version",
       current_device().shared_memory, needed);
}

// Prepares a kernel to be launched with as much dynamic shared memory as a block may have, and says how many of its
// blocks are resident at once, on the whole GPU, with `shared` bytes of it. fixed: its static shared memory, if that is
// more than kept_for_static. What the driver says is kept per thread and GPU, since asking takes as long as launching;
// it is asked again in another context, as after cudaDeviceReset.
template <class Function, Function kernel>
int64_t resident_blocks(int threads, size_t shared, size_t fixed = 0) {
  struct Known {
    unsigned long long context = 0;
    int threads = 0;
    size_t shared = 0;
    int64_t blocks = 0;
  };
  static thread_local Known known_of[devices_remembered];
  const Device device = current_device();
  Known &known = known_of[device.id % devices_remembered];
  const unsigned long long context = current_context();
  if (context != 0 && known.context == context && known.threads == threads && known.shared == shared)
    return known.blocks;
  if (shared + fixed > device.shared_memory) fail_for_memory(shared + fixed);
  // The same for every problem: it belongs to the kernel, which other threads launch for problems of their own.
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(device.shared_memory - fixed)),
        "cudaFuncSetAttribute");
  int resident = 0;
  check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, kernel, threads, shared),
        "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
  int64_t blocks = static_cast<int64_t>(resident) * device.multiprocessors;
#ifdef SDTW_CUDA_BLOCKS  // to test that no block waits for one that is not resident
  blocks = std::min<int64_t>(blocks, SDTW_CUDA_BLOCKS);
#endif
  known = Known{context, threads, shared, blocks};
  return blocks;
}

// overlap: programmatic dependent launch, in code for GPUs that have it (9.0). The kernel follows another of the same
// call, and its blocks may become resident while that one runs: it begins with wait_for_kernel_before.
template <class... Parameters, class... Arguments>
void launch_kernel(bool overlap, void (*kernel)(Parameters...), dim3 grid, int threads, size_t shared,
                   cudaStream_t stream, const Arguments &...arguments) {
  cudaLaunchAttribute serialization{};
  serialization.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  serialization.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = grid, config.blockDim = dim3(static_cast<unsigned>(threads)), config.dynamicSmemBytes = shared;
  config.stream = stream;
  config.attrs = &serialization, config.numAttrs = overlap && current_device().waits ? 1 : 0;
  check(cudaLaunchKernelEx(&config, kernel, arguments...), "kernel launch");
}

// bounds.cu. Norms of the points and bounds of the costs of each pair, for Costs::tensor.
void launch_bounds(const Args &a, cudaStream_t stream);

// pair_kernels.cu from here on. An array that the caller gets.
struct Output {
  sdtw_out out;                          // no data: nothing to do
  int rows, columns;                     // padded
  const void *lengths;                   // [batch]: rows of each pair; null: all of them
  const void *column_lengths = nullptr;  // likewise
};
// Before backward and alignment: initial values of the outputs, ones in some bytes of the workspace and zeros in
// others, and the midlines of pairs of several strips.
void launch_prepare(const Args &a, const Output &first, const Output &second, void *ones, size_t bytes_of_ones,
                    void *zeros, size_t bytes_of_zeros, cudaStream_t stream);
// After backward: adds `side` to grad_y; or, with wide_sums, rounds the sums of both gradients, those of `side`
// included.
void launch_add_side(const Args &a, cudaStream_t stream);
void launch_round_sums(const Args &a, const Output &grad_x, const Output &grad_y, cudaStream_t stream);

// The sweeps of one engine: FloatCell, LongCell or DoubleCell.
// large: the kernel for pairs whose costs are too large for a WordRing. wide: DoubleCell's, which LongCell's launches.
template <class Cell>
struct ForwardSweeps {
  static Kernel choose(const Args &a);
  static bool fits_slices(const Args &a);  // for Costs::tensor
  static bool fits_units(const Args &a);
  static void launch(const Args &a, const Kernel &chosen, cudaStream_t stream);
};
template <class Cell>
struct BackwardSweeps {
  static Kernel choose(const Args &a, bool large);
  static bool fits_slices(const Args &a);
  static bool fits_units(const Args &a);
  static void launch(const Args &a, const Kernel &chosen, const Kernel &wide, cudaStream_t stream);
};

}  // namespace sdtw::cuda
