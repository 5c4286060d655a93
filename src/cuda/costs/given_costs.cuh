// GivenCosts: given float32 costs for FloatCell. While the sweeping warp sweeps, it copies the costs of the next steps
// from the caller's matrix into shared memory by cp.async, 16 bytes at a time where the elements of a row are
// contiguous and element by element otherwise.
//
// Shared memory holds three parts of 16 columns of each row. A part of a row has the columns that the row's lane meets
// in a block of 16 steps, so each lane's part lies one column further left than that of the lane above. Parts begin at
// 16-byte boundaries, which is up to three columns further left: the first p columns of a part are behind the lane
// already, and so the first p columns of the next part belong to the same block. In exchange rows of any width are
// copied by 16 bytes, and a step finds its costs by adding one. In a reversed task everything lies and moves the other
// way round.
//
// The warp notes the largest cost that it has met: a pair with one beyond FloatCell's range is left to DoubleCell,
// which has given costs from DirectCosts.
#pragma once

#include <cuda_pipeline.h>

#include "cuda/costs/digits.cuh"
#include "cuda/costs/inline_costs.cuh"

namespace sdtw::cuda {

struct GivenCosts {
  static constexpr bool cooperative = false;
  static constexpr bool has_bound = false;
  static constexpr int warps = 1;
  static constexpr int resident = 1;
  static constexpr int unrolled = 8;  // with 16, the compiler moves stores of the second half of a block of
                                      // steps into the first half, where they have to wait for their values

  static constexpr int part_columns = block_steps, parts = 3, vector = 4;
  // Four lanes copy a part of a row, and a warp eight rows at once: row k of lanes 8 group to 8 group + 7.
  static constexpr int groups = warp / 8;
  // Pitches in floats. Behind the third part of a row its first four columns follow again, so that the columns of a
  // block are always contiguous. Groups are shifted by a vector each, so that lanes that load together have no bank
  // conflicts.
  static constexpr int pitch = parts * part_columns + vector, group_pitch = 8 * pitch + vector;
  static constexpr int pitch_k = groups * group_pitch;
  __host__ __device__ static size_t bytes(const Args &) { return K * pitch_k * sizeof(float); }

  const float *data;
  float *memory;
  FloatCell::Scale scale;
  int64_t row[K], along;            // offsets of the lane's rows; from an element of a row to the next
  const float *coming[groups][K];   // the vector that the lane copies of part 0 of a row
  int behind[K];                    // p of each row
  const float *at[K];               // the lane's costs, in shared memory, in the step that was sought
  int sign, origin;                 // column c of the task is column origin + sign c of the matrix
  int columns, lane;                // of the pair; the lane's number among the pair's lanes
  int least_columns, most_columns;  // of a pair, over the pairs of the warp
  int first_part;                   // the part that lies in slot 0
  bool vectors;                     // whether the elements of a row are contiguous
  float largest;                    // the largest |cost| that was met; a NaN is larger than any

  __device__ __forceinline__ GivenCosts() : scale(0) {}

  __device__ __forceinline__ void begin(const Args &a, const StripView &s, unsigned char *to) {
    data = static_cast<const float *>(a.x.data);
    memory = reinterpret_cast<float *>(to);
    scale = FloatCell::Scale(a.scale);
    largest = 0;
    along = a.x.stride[2], vectors = along == 1;
    columns = s.pair.m, lane = s.lane, sign = s.sign(), origin = s.first_column();
    most_columns = warp_max(columns), least_columns = -warp_max(-columns);
    first_part = 0;
    const int64_t before_first = (origin - sign * lane) * along;  // the lane's column in step 0
#pragma unroll
    for (int k = 0; k < K; k++) {
      row[k] = s.pair.index * a.x.stride[0] + clamp(s.row_of(k), s.pair.n) * a.x.stride[1];
      const auto element = reinterpret_cast<uintptr_t>(data + row[k] + before_first) / sizeof(float);
      behind[k] = vectors ? (element ^ (sign > 0 ? 0 : vector - 1)) % vector : 0;
    }
    __pipeline_wait_prior(0);  // for copies that the task before asked for and did not use
    __syncwarp();
    const int own = lane_id() % vector * vector;
#pragma unroll
    for (int k = 0; k < K; k++) {
      const int64_t start = row[k] + before_first - sign * behind[k];  // offset of part 0
#pragma unroll
      for (int group = 0; group < groups; group++)
        coming[group][k] = data + __shfl_sync(all_lanes, start, group * 8 + lane_id() / vector) + sign * own -
                           (sign > 0 ? 0 : vector - 1);
    }
  }

  // Where in a row of shared memory column i of the part in a slot lies, or `size` columns from there on.
  __device__ __forceinline__ int place(int slot, int i, int size = 1) const {
    const int from_first = slot * part_columns + i;
    return sign > 0 ? from_first : pitch - from_first - size;
  }
  __device__ __forceinline__ int slot_of(int part) const { return (part - first_part) % parts; }
  static __device__ __forceinline__ int row_at(int of_lane, int k) {
    return k * pitch_k + of_lane * pitch + of_lane / 8 * vector;
  }

  // Asks for a part of all rows. By vectors if all of them lie inside the matrix for every lane; else each lane copies
  // its own rows, as long as any of the columns exist.
  __device__ __forceinline__ void fetch(int part) {
    const int first = part * part_columns, slot = slot_of(part);
    constexpr int most_behind = warp - 1 + vector - 1;
    if (vectors && first >= most_behind && first + part_columns <= least_columns)
      fetch_vectors(first, slot);
    else if (first <= most_columns + most_behind)
      fetch_own(first, slot);
    __pipeline_commit();
  }
  // A part all of whose columns lie in the matrix, for all lanes. Four lanes copy each row.
  __device__ __forceinline__ void fetch_vectors(int first, int slot) {
    const int v = lane_id() % vector;
    float *const rows = memory + row_at(lane_id() / vector, 0);
    copy_vectors(rows + place(slot, v * vector, vector), first);
    if (slot == 0 && v == 0) copy_vectors(rows + place(parts, 0, vector), first);
  }
  __device__ __forceinline__ void copy_vectors(float *to, int first) {
    const int64_t offset = sign * first;
#pragma unroll
    for (int k = 0; k < K; k++)
#pragma unroll
      for (int group = 0; group < groups; group++)
        copy_vector(to + k * pitch_k + group * group_pitch, coming[group][k] + offset);
  }
  // Asks the L2 cache for the 128 bytes around the vector, so that the next part of the row is there when it is copied.
  static __device__ __forceinline__ void copy_vector(float *to, const float *from) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile(
        "cp.async.cg.shared.global.L2::128B [%0], [%1], %2;" ::"r"(static_cast<unsigned>(__cvta_generic_to_shared(to))),
        "l"(from), "n"(vector * sizeof(float))
        : "memory");
#else
    __pipeline_memcpy_async(to, from, vector * sizeof(float));
#endif
  }
  // A part of the lane's own rows, which may reach beyond the matrix.
  __device__ __forceinline__ void fetch_own(int first, int slot) const {
#pragma unroll
    for (int k = 0; k < K; k++) {
      float *to = memory + row_at(lane_id(), k);
#pragma unroll 1
      for (int i = 0; i < part_columns; i += vector) {
        const int column = first - lane - behind[k] + i;
        fetch_four(to + place(slot, i, vector), data + row[k], column);
        if (slot == 0 && i == 0) fetch_four(to + place(parts, i, vector), data + row[k], column);
      }
    }
  }
  // Columns [column, column + 4) of a row. Columns that the pair does not have get 0.
  __device__ __forceinline__ void fetch_four(float *to, const float *from_row, int column) const {
    if (vectors && column >= 0 && column + vector <= columns) {
      const float *from = from_row + origin + sign * column - (sign > 0 ? 0 : vector - 1);
      __pipeline_memcpy_async(to, from, vector * sizeof(float));
      return;
    }
#pragma unroll
    for (int i = 0; i < vector; i++) {
      const int at = column + i;
      const float *from = from_row + (origin + sign * clamp(at, columns)) * along;
      __pipeline_memcpy_async(to + (sign > 0 ? i : vector - 1 - i), from, sizeof(float),
                              at == clamp(at, columns) ? 0 : sizeof(float));
    }
  }

  // Forward: asks for the part after the two that a block of steps reads, and waits for these. One call of `fetch` for
  // all of them is less code.
  __device__ __forceinline__ void enter(int first, bool begins) {
    const int last = first / part_columns + parts - 1;
    __syncwarp();  // its slot has been read
#pragma unroll 1
    for (int part = begins ? last - (parts - 1) : last; part <= last; part++) fetch(part);
    __pipeline_wait_prior(1);
    __syncwarp();
  }
  __device__ __forceinline__ void stage(int) const {}
  __device__ __forceinline__ void look_ahead(int, int) const {}
  // Backward: loads the parts of up to 32 steps.
  __device__ __forceinline__ void window(int first, int steps) {
    first_part = first / part_columns;
    __syncwarp();
    for (int part = first_part; part * part_columns < first + steps + vector - 1; part++) fetch(part);
    __pipeline_wait_prior(0);
    __syncwarp();
  }

  __device__ __forceinline__ void seek(int first) {
    const int slot = slot_of(first / part_columns);
#pragma unroll
    for (int k = 0; k < K; k++) at[k] = memory + row_at(lane_id(), k) + place(slot, behind[k] + first % part_columns);
  }
  __device__ __forceinline__ void costs(int u, FloatCost (&cost)[K]) {
#pragma unroll
    for (int k = 0; k < K; k++) {
      const float c = at[k][sign * u];
      largest = larger(largest, fabsf(c));
      cost[k] = FloatCell::split(c, scale);
    }
  }

  // The largest |t| of the lane's pair that the strip has met, as bits of a float; a NaN is larger than any.
  __device__ __forceinline__ int bound(const Args &a, const StripView &s) const {
    const int bits = __float_as_int(largest) & 0x7fffffff;
    const float most = __int_as_float(pair_max(bits, s.lanes)) * static_cast<float>(a.scale);
    return core::is_float_scale(a.scale) ? __float_as_int(most) & 0x7fffffff : rejected;
  }
};

// Splits given costs for LongCell, of any |t| below 2^31: in float64, or where that is slow by a product of mantissas.
struct WideScale {
  double factor;
  __device__ __forceinline__ FloatCost split(float c) const { return split_large(static_cast<double>(c) * factor); }
};
struct IntegerScale {
  SliceScale factor;
  __device__ __forceinline__ FloatCost split(float c) const {
    const unsigned bits = __float_as_uint(c), exponent = bits >> 23 & 0xff;
    const unsigned mantissa = (bits & 0x7fffff) | (exponent > 0 ? 1u << 23 : 0);
    const unsigned long long product = static_cast<unsigned long long>(mantissa) * (factor.mantissa * 2u) << 8;
    const int by = 157 - max(static_cast<int>(exponent), 1) - factor.exponent;  // to units of 2^-32
    const unsigned long long size = product >> min(max(by, 0), 63);
    return IntegerCoordinates::split((c < 0 ? 0 - size : size) + (1ull << 31));
  }
};

// The same for LongCell.
struct LargeGivenCosts : GivenCosts {
  std::conditional_t<avoids_float64, IntegerScale, WideScale> wide_scale;

  __device__ __forceinline__ LargeGivenCosts() : wide_scale{decltype(wide_scale.factor)(1.0)} {}
  __device__ __forceinline__ void begin(const Args &a, const StripView &s, unsigned char *to) {
    GivenCosts::begin(a, s, to);
    wide_scale = {decltype(wide_scale.factor)(a.scale)};
  }
  __device__ __forceinline__ void costs(int u, FloatCost (&cost)[K]) const {
#pragma unroll
    for (int k = 0; k < K; k++) cost[k] = wide_scale.split(at[k][sign * u]);
  }
};
template <>
struct LargeOf<GivenCosts> {
  using type = LargeGivenCosts;
};

}  // namespace sdtw::cuda
