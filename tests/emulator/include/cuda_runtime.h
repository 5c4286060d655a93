// In place of CUDA's header of this name: as much of CUDA C++ and of its runtime as the library's kernels, their
// launchers and the tests use, on the emulator.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "../emulator.h"

#define __host__
#define __device__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(bytes) alignas(bytes)
#define __noinline__ __attribute__((noinline))

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned of_x = 1, unsigned of_y = 1, unsigned of_z = 1) : x(of_x), y(of_y), z(of_z) {}
};
#define threadIdx (emulator::position().thread)
#define blockIdx (emulator::position().block)
// These two are names of members as well, so they are objects.
template <emulator::Index emulator::Position::*index, unsigned emulator::Index::*coordinate>
struct sdtw_emulator_coordinate {
  operator unsigned() const { return emulator::position().*index.*coordinate; }
};
template <emulator::Index emulator::Position::*index>
struct sdtw_emulator_index {
  sdtw_emulator_coordinate<index, &emulator::Index::x> x;
  sdtw_emulator_coordinate<index, &emulator::Index::y> y;
  sdtw_emulator_coordinate<index, &emulator::Index::z> z;
};
constexpr sdtw_emulator_index<&emulator::Position::block_size> blockDim{};
constexpr sdtw_emulator_index<&emulator::Position::grid> gridDim{};

struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(16) double2 {
  double x, y;
};
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

// What threads do together.
#define SDTW_EMULATOR_TEXT_(line) #line
#define SDTW_EMULATOR_TEXT(line) SDTW_EMULATOR_TEXT_(line)
#define __syncthreads() emulator::meet_in_block(0, 0, __FILE__ ":" SDTW_EMULATOR_TEXT(__LINE__))
inline void __syncwarp(unsigned mask = 0xffffffffu) { emulator::meet_in_warp(mask); }
inline int __any_sync(unsigned mask, int predicate) { return emulator::ballot(mask, predicate != 0) != 0; }
inline unsigned __ballot_sync(unsigned mask, int predicate) { return emulator::ballot(mask, predicate != 0); }
inline int __all_sync(unsigned mask, int predicate) { return emulator::ballot(mask, predicate == 0) == 0; }
inline int __reduce_add_sync(unsigned mask, int value) {
  return static_cast<int>(emulator::add_up(mask, static_cast<unsigned>(value)));
}

template <class T>
T sdtw_emulator_shuffle(unsigned mask, T value, int source) {
  static_assert(sizeof(T) <= sizeof(uint64_t), "a shuffle moves four or eight bytes");
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  bits = emulator::exchange(mask, bits, source);
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
inline int sdtw_emulator_lane() {
  const auto &p = emulator::position();
  return static_cast<int>((p.thread.x + p.block_size.x * (p.thread.y + p.block_size.y * p.thread.z)) % 32);
}
template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32) {
  const int lane = sdtw_emulator_lane();
  return sdtw_emulator_shuffle(mask, value, (lane & ~(width - 1)) | (source & (width - 1)));
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32) {
  const int lane = sdtw_emulator_lane(), source = lane ^ bits;
  return sdtw_emulator_shuffle(mask, value, source / width == lane / width || source < lane ? source : lane);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned by, int width = 32) {
  const int lane = sdtw_emulator_lane(), source = lane - static_cast<int>(by);
  return sdtw_emulator_shuffle(mask, value, source >= (lane & ~(width - 1)) ? source : lane);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned by, int width = 32) {
  const int lane = sdtw_emulator_lane(), source = lane + static_cast<int>(by);
  return sdtw_emulator_shuffle(mask, value, source < (lane & ~(width - 1)) + width ? source : lane);
}

// Memory. All threads of a launch are of one host thread, so an access that is made in one go is atomic.
template <class T>
T __ldg(const T *p) {
  return *p;
}
template <class T>
T __ldcg(const T *p) {
  return *p;
}
inline void __threadfence() {}
inline void __threadfence_block() { emulator::give_way(); }
inline void __nanosleep(unsigned) { emulator::give_way(); }
[[noreturn]] inline void __trap() { emulator::stop("__trap"); }

template <class T>
T atomicAdd(T *to, T value) {
  const T before = *to;
  *to = static_cast<T>(before + value);
  return before;
}
inline float4 atomicAdd(float4 *to, float4 value) {
  const float4 before = *to;
  *to = {before.x + value.x, before.y + value.y, before.z + value.z, before.w + value.w};
  return before;
}
template <class T>
T atomicMin(T *to, T value) {
  const T before = *to;
  *to = std::min(before, value);
  return before;
}
template <class T>
T atomicMax(T *to, T value) {
  const T before = *to;
  *to = std::max(before, value);
  return before;
}
template <class T>
T atomicOr(T *to, T value) {
  const T before = *to;
  *to = before | value;
  return before;
}

// Arithmetic.
template <class To, class From>
To sdtw_emulator_bits(From from) {
  static_assert(sizeof(To) == sizeof(From), "bits of another size");
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}
inline double __longlong_as_double(long long v) { return sdtw_emulator_bits<double>(v); }
inline long long __double_as_longlong(double v) { return sdtw_emulator_bits<long long>(v); }
inline float __uint_as_float(unsigned v) { return sdtw_emulator_bits<float>(v); }
inline unsigned __float_as_uint(float v) { return sdtw_emulator_bits<unsigned>(v); }
inline float __int_as_float(int v) { return sdtw_emulator_bits<float>(v); }
inline int __float_as_int(float v) { return sdtw_emulator_bits<int>(v); }
inline int __double2loint(double v) { return static_cast<int>(__double_as_longlong(v)); }
inline int __double2hiint(double v) { return static_cast<int>(__double_as_longlong(v) >> 32); }
inline double __hiloint2double(int high, int low) {
  return __longlong_as_double(
      static_cast<long long>(static_cast<uint64_t>(static_cast<unsigned>(high)) << 32 | static_cast<unsigned>(low)));
}
inline int __float2int_rn(float v) {
  if (std::isnan(v)) return 0;
  using Limits = std::numeric_limits<int>;
  return v >= 0x1p31f ? Limits::max() : v < -0x1p31f ? Limits::min() : static_cast<int>(std::nearbyint(v));
}
inline unsigned __umulhi(unsigned a, unsigned b) { return static_cast<unsigned>(uint64_t{a} * b >> 32); }
__extension__ typedef unsigned __int128 Unsigned128;
__extension__ typedef __int128 Signed128;
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return static_cast<unsigned long long>(Unsigned128{a} * b >> 64);
}
inline long long __mul64hi(long long a, long long b) { return static_cast<long long>(Signed128{a} * b >> 64); }
inline int __mulhi(int a, int b) { return static_cast<int>(int64_t{a} * b >> 32); }
inline long long __double2ll_rn(double v) { return std::llrint(v); }
inline int __double2int_rn(double v) { return static_cast<int>(std::llrint(v)); }
inline double __dmul_rn(double a, double b) {
  const volatile double product = a * b;  // not to become part of a fused multiply-add
  return product;
}
inline float __fmul_ru(float a, float b) {
  const double product = double{a} * b;
  const auto nearest = static_cast<float>(product);
  return nearest < product ? std::nextafter(nearest, std::numeric_limits<float>::infinity()) : nearest;
}
inline float __fmul_rn(float a, float b) {
  const volatile float product = a * b;
  return product;
}
inline int __clz(int v) { return v == 0 ? 32 : __builtin_clz(static_cast<unsigned>(v)); }
inline int __ffs(int v) { return __builtin_ffs(v); }
inline int __popc(unsigned v) { return __builtin_popcount(v); }
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned by) {
  return static_cast<unsigned>((uint64_t{high} << 32 | low) << (by & 31) >> 32);
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned by) {
  return static_cast<unsigned>((uint64_t{high} << 32 | low) >> (by & 31));
}
inline size_t __cvta_generic_to_shared(const void *p) { return reinterpret_cast<size_t>(p); }
inline int __vimin3_s32(int a, int b, int c) { return std::min(a, std::min(b, c)); }
inline int __vimax3_s32(int a, int b, int c) { return std::max(a, std::max(b, c)); }
inline int __viaddmin_s32_relu(int a, int b, int c) {
  return std::max(std::min(static_cast<int>(unsigned(a) + unsigned(b)), c), 0);
}
inline int __viaddmax_s32(int a, int b, int c) { return std::max(static_cast<int>(unsigned(a) + unsigned(b)), c); }

template <class A, class B>
constexpr std::common_type_t<A, B> sdtw_emulator_min(A a, B b) {
  using T = std::common_type_t<A, B>;
  if constexpr (std::is_floating_point_v<T>)
    return static_cast<T>(std::fmin(static_cast<T>(a), static_cast<T>(b)));
  else
    return static_cast<T>(a) < static_cast<T>(b) ? static_cast<T>(a) : static_cast<T>(b);
}
template <class A, class B, class = std::enable_if_t<std::is_arithmetic_v<A> && std::is_arithmetic_v<B>>>
constexpr std::common_type_t<A, B> min(A a, B b) {
  return sdtw_emulator_min(a, b);
}
template <class A, class B, class = std::enable_if_t<std::is_arithmetic_v<A> && std::is_arithmetic_v<B>>>
constexpr std::common_type_t<A, B> max(A a, B b) {
  using T = std::common_type_t<A, B>;
  if constexpr (std::is_floating_point_v<T>)
    return static_cast<T>(std::fmax(static_cast<T>(a), static_cast<T>(b)));
  else
    return static_cast<T>(a) < static_cast<T>(b) ? static_cast<T>(b) : static_cast<T>(a);
}
using std::abs;
using std::copysign;
using std::fabs;
using std::fma;
using std::fmax;
using std::fmin;
using std::isfinite;
using std::isinf;
using std::isnan;
using std::ldexp;
using std::log2;
using std::rint;
using std::signbit;
using std::sqrt;

// The runtime.
enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInvalidDeviceFunction = 98,
  cudaErrorNoKernelImageForDevice = 209,
  cudaErrorUnsupportedPtxVersion = 222
};
enum cudaMemcpyKind { cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost = 2, cudaMemcpyDeviceToDevice = 3 };
enum cudaDeviceAttr {
  cudaDevAttrMultiProcessorCount,
  cudaDevAttrMaxSharedMemoryPerBlockOptin,
  cudaDevAttrMaxSharedMemoryPerMultiprocessor,
  cudaDevAttrSingleToDoublePrecisionPerfRatio
};
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize };
enum { cudaEnableDefault };
struct CUstream_st;
using cudaStream_t = CUstream_st *;
using cudaDriverEntryPointQueryResult = int;
#define cudaStreamPerThread (static_cast<cudaStream_t>(nullptr))

struct cudaFuncAttributes {
  int numRegs = 0;
  size_t localSizeBytes = 0, sharedSizeBytes = 0;
  int maxThreadsPerBlock = 1024, binaryVersion = 80, ptxVersion = 80;
};
enum cudaLaunchAttributeID { cudaLaunchAttributeProgrammaticStreamSerialization };
struct cudaLaunchAttribute {
  cudaLaunchAttributeID id;
  struct {
    int programmaticStreamSerializationAllowed;
  } val;
};
struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  size_t dynamicSmemBytes;
  cudaStream_t stream;
  cudaLaunchAttribute *attrs;
  unsigned numAttrs;
};

inline const char *cudaGetErrorString(cudaError_t error) {
  return error == cudaSuccess ? "no error" : error == cudaErrorMemoryAllocation ? "out of memory" : "invalid value";
}
inline cudaError_t cudaGetLastError() { return cudaSuccess; }
inline cudaError_t cudaGetDeviceCount(int *count) { return *count = 1, cudaSuccess; }
inline cudaError_t cudaGetDevice(int *device) { return *device = 0, cudaSuccess; }
inline cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr attribute, int) {
  *value = attribute == cudaDevAttrMultiProcessorCount ? emulator::multiprocessors
           : attribute == cudaDevAttrSingleToDoublePrecisionPerfRatio
               ? (std::getenv("SDTW_EMULATOR_SLOW_FLOAT64") ? 64 : 2)
           : attribute == cudaDevAttrMaxSharedMemoryPerBlockOptin
               ? static_cast<int>(emulator::shared_memory_of_block)
               : static_cast<int>(emulator::shared_memory_of_multiprocessor);
  return cudaSuccess;
}
inline cudaError_t cudaGetDriverEntryPointByVersion(const char *, void **found, unsigned, int,
                                                    cudaDriverEntryPointQueryResult *) {
  return *found = nullptr, cudaSuccess;
}
template <class Kernel>
cudaError_t cudaFuncSetAttribute(Kernel, cudaFuncAttribute, int bytes) {
  return bytes <= static_cast<int>(emulator::shared_memory_of_block) ? cudaSuccess : cudaErrorInvalidValue;
}
template <class Kernel>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *attributes, Kernel) {
  return *attributes = {}, cudaSuccess;
}
template <class Kernel>
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, Kernel, int threads, size_t shared_memory) {
  return *blocks = emulator::blocks_per_multiprocessor(threads, shared_memory), cudaSuccess;
}

template <class... Parameters, class... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t *config, void (*kernel)(Parameters...),
                               const Arguments &...arguments) {
  const dim3 grid = config->gridDim, block = config->blockDim;
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.y > 65535 || grid.z > 65535 ||
      block.x * block.y * block.z == 0 || block.x * block.y * block.z > 1024 ||
      config->dynamicSmemBytes > emulator::shared_memory_of_block)
    return cudaErrorInvalidValue;
  emulator::Launch launch;
  launch.grid = {grid.x, grid.y, grid.z}, launch.block = {block.x, block.y, block.z};
  launch.shared_memory = config->dynamicSmemBytes;
  launch.name = __PRETTY_FUNCTION__;
  launch.body = [&] { kernel(arguments...); };
  emulator::run(launch);
  return cudaSuccess;
}

inline cudaError_t cudaMalloc(void **address, size_t bytes) {
  *address = std::malloc(bytes);
  return *address ? cudaSuccess : cudaErrorMemoryAllocation;
}
inline cudaError_t cudaFree(void *address) { return std::free(address), cudaSuccess; }
inline cudaError_t cudaMemset(void *to, int value, size_t bytes) { return std::memset(to, value, bytes), cudaSuccess; }
inline cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t) {
  return cudaMemset(to, value, bytes);
}
inline cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind) {
  return std::memcpy(to, from, bytes), cudaSuccess;
}
inline cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind, cudaStream_t) {
  return cudaMemcpy(to, from, bytes, kind);
}
inline cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
inline cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
inline cudaError_t cudaDeviceReset() { return cudaSuccess; }
