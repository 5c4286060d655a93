// The points of a tile in shared memory: how features come from global to shared memory, some at a time, by the warps
// that fill tiles with costs.
#pragma once

#include <cuda_pipeline.h>

#include "core/metric.h"
#include "cuda/element.cuh"
#include "cuda/general/task.cuh"

namespace sdtw::cuda::general {

// Where x and y of a feature lie in shared memory, in elements. A lane's rows are `rows_apart` apart, so that the lanes
// of a warp read side by side; this and the pitches put what a warp stores into different banks.
constexpr int rows_apart = warp + 1, staged_rows = K * rows_apart + 14;
template <int T>
constexpr int staged_columns = T + warp + 2;
__device__ __forceinline__ constexpr int place_of_row(int row) { return row % K * rows_apart + row / K; }

// In shared memory points are doubles if they are so in global memory, else floats.
__host__ __device__ __forceinline__ size_t staged_bytes(sdtw_dtype dtype) {
  return dtype == SDTW_F64 ? sizeof(double) : sizeof(float);
}

// Copies of elements, `apart` bytes apart and `places` numbers apart in shared memory, those of numbers [0, count) that
// wanted(i) says. Float and double elements are on their way until the thread waits for its copies.
template <int count, class To, class Wanted>
__device__ __forceinline__ void copy_elements(To *to, int places, const char *from, int64_t apart, sdtw_dtype dtype,
                                              const Wanted &wanted) {
  if constexpr (sizeof(To) == sizeof(float)) {
    if (dtype != SDTW_F32) {
      unsigned short bits[count];  // copies have at least four bytes
#pragma unroll
      for (int i = 0; i < count; i++)
        bits[i] = wanted(i) ? __ldg(reinterpret_cast<const unsigned short *>(from + i * apart)) : 0;
#pragma unroll
      for (int i = 0; i < count; i++)
        if (wanted(i)) to[i * places] = half_type_number(bits[i], dtype);
      return;
    }
  }
#pragma unroll
  for (int i = 0; i < count; i++)
    if (wanted(i)) __pipeline_memcpy_async(to + i * places, from + i * apart, sizeof(To));
}

// Points of a tile in shared memory: x [features][staged_rows], or of shared rows [features][pitch], a lane's rows side
// by side; y [features][staged_columns]; column 0 of y is the one in which the last lane is in the tile's first step.
// What lies outside of the pair is left as it is.
template <class In>
struct Points {
  const In *x, *y;
};
// Those of a slot: half as many where tiles have one step, since there shared memory is short.
template <int T>
constexpr int features_of_slot = T > 1 ? at_once : at_once / 2;
template <int T>
constexpr int points_size = features_of_slot<T> *(staged_rows + staged_columns<T>);  // in elements

// The features of tiles on their way into shared memory, `of_slot` at a time, by `threads` threads: into a ring of one
// to three slots, so that while some are added up the next ones come. Walk: the tiles that follow each other, with
// over(), first_step() and advance(). Points of few features have x in the first slot, once for all tiles. may_share: x
// of the strip may be in shared memory already, all features of it, since gradients are made of it, too. Then slots
// have y alone, of four times as many features.
template <class Walk, int T, int threads, bool tangents, bool may_share_rows>
struct Feed {
  static constexpr bool may_share = may_share_rows && !tangents;
  static constexpr int series = tangents ? 2 : 1;  // points, and their tangents
  static constexpr int few = features_of_slot<T>, many = 4 * few;
  static constexpr int x_pitch = staged_rows, y_pitch = staged_columns<T>;
  static __host__ __device__ __forceinline__ size_t bytes(sdtw_dtype dtype, int slots, bool shared) {
    return static_cast<size_t>(slots) * slot_size(shared) * staged_bytes(dtype);
  }
  static __host__ __device__ __forceinline__ int slot_size(bool shared) {  // in elements
    return shared ? many * y_pitch : series * points_size<T>;
  }

  const Args &a;
  const Task &s;
  unsigned char *memory;
  const unsigned char *rows;  // x of the strip that is shared, or null
  int slots, thread;
  Walk ahead;        // the tile of which features are asked for next
  int from;          // the first of these
  int asking, used;  // slots: of what is asked for next; of what was taken
  int begin;         // the first feature of what was taken
  bool first;        // nothing has been asked for

  __device__ __forceinline__ Feed(const Args &args, const Task &task, unsigned char *shared, int of_slots, int number,
                                  const Walk &tiles, const unsigned char *shared_rows)
      : a(args),
        s(task),
        memory(shared),
        rows(shared_rows),
        slots(of_slots),
        thread(number),
        ahead(tiles),
        from(0),
        asking(0),
        used(-1),
        begin(0),
        first(true) {
    if (!a.fused) return;
    for (int i = 0; i < slots - 1; i++) ask();
  }
  __device__ __forceinline__ int after(int slot) const { return slot + 1 < slots ? slot + 1 : 0; }

  __device__ __forceinline__ bool shares() const { return may_share && rows; }
  template <class In>
  __device__ __forceinline__ In *slot(int number, int which) const {
    return reinterpret_cast<In *>(memory) + number * slot_size(shares()) + which * points_size<T>;
  }
  // How many features come at a time; where a column lies, counted from the first of the tile.
  __device__ __forceinline__ int together() const { return shares() ? many : few; }
  __device__ __forceinline__ int place_of_column(int i) const { return i; }
  // x and y of what was taken.
  template <class In>
  __device__ __forceinline__ Points<In> points(int which) const {
    if (shares()) return {reinterpret_cast<const In *>(rows) + begin * pitch, slot<In>(used, which)};
    return {slot<In>(a.cost_features > few ? used : 0, which), slot<In>(used, which) + few * staged_rows};
  }

  // with_rows: of x as well.
  template <class In, int of_slot, bool with_rows>
  __device__ __forceinline__ void copy(const Series &of_rows, const Series &of_columns, int which) const {
    constexpr int each = threads / of_slot, of_x = strip_rows / each, of_y = (T + warp + each - 1) / each;
    const int own = thread % of_slot, f = from + own, place = thread / of_slot;
    const int64_t size = of_rows.dtype == SDTW_F64 ? 8 : of_rows.dtype == SDTW_F32 ? 4 : 2;
    if (f >= a.cost_features) return;
    const int64_t apart = s.reversed ? -each : each;
    const auto bring = [&](auto count, In *to, int places, const Series &from_series, int64_t number, int first,
                           const auto &wanted) {
      const char *at =
          static_cast<const char *>(from_series.data) +
          (number * from_series.stride[0] + first * from_series.stride[1] + f * from_series.stride[2]) * size;
      if (from_series.data)
        return copy_elements<count.value>(to, places, at, apart * from_series.stride[1] * size, from_series.dtype,
                                          wanted);
      for (int i = 0; i < count.value; i++)
        if (wanted(i)) to[i * places] = 0;
    };
    if (with_rows && (a.cost_features > of_slot || first))
      bring(std::integral_constant<int, of_x>{}, slot<In>(asking, which) + own * staged_rows + place_of_row(place),
            each / K, of_rows, s.index.x, s.row_of(place),
            [&](int i) { return s.has_row(s.row_of(place + i * each)); });
    const int column = ahead.first_step() - (warp - 1) + place;
    bring(std::integral_constant<int, of_y>{},
          slot<In>(asking, which) + (with_rows ? of_slot * staged_rows : 0) + own * y_pitch + place, each, of_columns,
          s.index.y, s.column_of(column),
          [&](int i) { return place + i * each < T + warp && column + i * each >= 0 && column + i * each < s.m; });
  }
  template <class In>
  __device__ __forceinline__ void copy_all() const {
    if constexpr (may_share)
      if (shares()) return copy<In, many, false>(a.x, a.y, 0);
    copy<In, few, true>(a.x, a.y, 0);
    if constexpr (tangents) copy<In, few, true>(a.tangent_x, a.tangent_y, 1);
  }
  __device__ __forceinline__ void ask() {
    if (!ahead.over()) {
      a.x.dtype == SDTW_F64 ? copy_all<double>() : copy_all<float>();
      first = false;
      from += together();
      if (from >= a.cost_features) from = 0, ahead.advance();
    }
    __pipeline_commit();
    asking = after(asking);
  }
  // Waits for the next features. meet: a barrier of the threads.
  template <class Meet>
  __device__ __forceinline__ void take(const Meet &meet) {
    if (slots == 2) __pipeline_wait_prior(0);
    if (slots > 2) __pipeline_wait_prior(1);
    meet();
    ask();  // into the slot of those before, which all have read; a single slot has what was asked for now
    if (slots == 1) {
      __pipeline_wait_prior(0);
      meet();
    }
    begin = used < 0 || begin + together() >= a.cost_features ? 0 : begin + together();
    used = after(used);
  }
};

}  // namespace sdtw::cuda::general
