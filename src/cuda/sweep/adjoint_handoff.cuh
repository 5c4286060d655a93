// E as it goes from strip to strip: from the middle of a pair outwards, each strip of a half takes up what the one
// before has left, column by column, as soon as it is there. Columns are counted as the half meets them, and go down.
#pragma once

#include "cuda/pipeline/backward_pipeline.cuh"
#include "cuda/sweep/midline.cuh"

namespace sdtw::cuda {

// Whether E goes on from a strip into one that waits for it.
__device__ __forceinline__ bool leaves_for_next(const Args &a, const StripView &s) {
  return s.active && !s.first && !a.full_sweeps;
}

// The columns in which E leaves a strip: none beyond `last`, which is known with the first that does, and none before
// `end`, once that is known. Stored as a word, which is not all ones.
struct ExitColumns {
  int last, end;

  static __device__ __forceinline__ ExitColumns of(Word word) {
    return {static_cast<int>(word >> 32), static_cast<int>(word)};
  }
  __device__ __forceinline__ Word word() const { return static_cast<Word>(last) << 32 | static_cast<unsigned>(end); }
};

// E that leaves a strip in a column, as words of which each has the strip's order beside a half of it, or all: a strip
// writes where the one before it has written, and the data are their own flags.
template <class Real>
struct AdjointWord {
  static constexpr int words = sizeof(Real) / sizeof(unsigned);
  Word word[words];

  static __device__ __forceinline__ Word *place(const Args &a, const StripView &s, int column) {
    return a.flows + ((s.pair.index * halves + s.reversed) * a.m + column) * flow_words;
  }
  __device__ __forceinline__ void load(const Word *from) {
#pragma unroll
    for (int i = 0; i < words; i++) word[i] = load_relaxed(from + i);
  }
  __device__ __forceinline__ bool is_of(int order) const {
    bool all = true;
#pragma unroll
    for (int i = 0; i < words; i++) all = all && static_cast<int>(word[i] >> 32) == order;
    return all;
  }
  __device__ __forceinline__ Real value() const {
    if constexpr (words == 1)
      return __uint_as_float(static_cast<unsigned>(word[0]));
    else
      return __hiloint2double(static_cast<int>(word[0]), static_cast<int>(word[1]));
  }
  static __device__ __forceinline__ void store(Word *to, int order, Real e) {
    const Word tag = static_cast<Word>(static_cast<unsigned>(order)) << 32;
    if constexpr (words == 1) {
      store_relaxed(to, tag | __float_as_uint(e));
    } else {
      store_relaxed(to, tag | static_cast<unsigned>(__double2hiint(e)));
      store_relaxed(to + 1, tag | static_cast<unsigned>(__double2loint(e)));
    }
  }
};

// What enters a strip from the one before it, or leaves it, as the strip's warp sees it.
template <class Real>
struct AdjointInflow {
  const Args &a;
  const StripView &s;
  ExitColumns before;       // of the strip before
  AdjointWord<Real> asked;  // of the lane's column

  __device__ __forceinline__ AdjointInflow(const Args &args, const StripView &view)
      : a(args), s(view), before{none, none} {}

  static __device__ __forceinline__ Word *leaving(const Args &a, const StripView &s, int strip) {
    return a.left + s.pair.index * a.strips + strip;
  }
  static __device__ __forceinline__ const Word *leaving_before(const Args &a, const StripView &s) {
    return leaving(a, s, s.strip + s.sign());
  }
  __device__ __forceinline__ void look() { before = ExitColumns::of(load_relaxed(leaving_before(a, s))); }
  __device__ __forceinline__ void ask(int column) {
    if (column <= before.last) asked.load(AdjointWord<Real>::place(a, s, column));
  }
  // What was asked for, as soon as it is there.
  __device__ __forceinline__ Real take(int column) {
    if (column > before.last) return 0;
    while (!asked.is_of(s.order - halves)) {
      if (before.end == none) look();
      // What the strip before wrote before it said so may come to be seen later.
      if (before.end != none && column < before.end) return 0;
      asked.load(AdjointWord<Real>::place(a, s, column));
    }
    return asked.value();
  }
  // Whether nothing enters before a column any more.
  __device__ __forceinline__ bool is_over(int column) {
    if (column <= 0) return true;
    if (before.end == none) look();
    return before.end != none && column <= before.end;
  }
};

}  // namespace sdtw::cuda
