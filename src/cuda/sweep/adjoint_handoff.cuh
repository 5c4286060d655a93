// The hand-off of the adjoint E (Cuturi and Blondel 2017, Algorithm 2) from strip to strip, between blocks that run at
// the same time. From the middle of a pair outwards, each strip of a half takes what the strip before has sent, column
// by column, as soon as it is there. Columns are counted as the half's forward sweep meets them;
// E is handed on from the last to the first.
//
// Invariant: the data are their own flags. All strips of a half share one row of words, each tagged with the strip that
// wrote it, and memory does not grow with the number of strips. A strip may overwrite a column of the strip before,
// because it has taken E from there (in every column E enters the last row of a strip before it leaves the first row),
// or because it knows from that strip's ExitColumns, a word of its own, that there is none. That word is released and
// acquired, so that the two strips' words in such a column are in order for a third one, too.
// Not used where Args::full_sweeps is set: then a midline tells how E enters every strip, and no strip waits for
// another.
#pragma once

#include "cuda/pipeline/backward_pipeline.cuh"
#include "cuda/sweep/midline.cuh"

namespace sdtw::cuda {

// Whether E goes on from a strip into another one, whose block waits for it.
__device__ __forceinline__ bool leaves_for_next(const Args &a, const StripView &s) {
  return s.active && !s.first && !a.full_sweeps;
}

// The columns in which E leaves a strip, as the strip tells the next one (Args::left); E that is not is_live (cell.cuh)
// does not count. Stored as a word; `last` is never none in it, so the word is not all ones, which stands for "not told
// yet".
struct ExitColumns {
  int last,  // E leaves in no column beyond it; told at the latest when the first E has left, or when none will
      end;   // E leaves in no column before it; none until that is known

  static __device__ __forceinline__ ExitColumns of(Word word) {
    return {static_cast<int>(word >> 32), static_cast<int>(word)};
  }
  __device__ __forceinline__ Word word() const { return static_cast<Word>(last) << 32 | static_cast<unsigned>(end); }
};

// E that leaves a strip in a column (Args::flows). The high 32 bits of each word are StripView::order of the strip that
// wrote it, the low ones a float, or a half of a double: the tags of both words have to match.
template <class Real>
struct AdjointWord {
  static constexpr int words = sizeof(Real) / sizeof(unsigned);
  Word word[words];  // of a double the high half is first

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

// E that enters a strip from the one before it. Every lane takes the columns that it looks after (adjoint_sweep.cuh).
template <class Real>
struct AdjointInflow {
  const Args &a;
  const StripView &s;
  ExitColumns before;       // of the strip before, as last looked up
  AdjointWord<Real> asked;  // of the lane's column, as last loaded

  __device__ __forceinline__ AdjointInflow(const Args &args, const StripView &view)
      : a(args), s(view), before{none, none} {}

  // Where the ExitColumns of a strip of the pair lie.
  static __device__ __forceinline__ Word *leaving(const Args &a, const StripView &s, int strip) {
    return a.left + s.pair.index * a.strips + strip;
  }
  static __device__ __forceinline__ const Word *leaving_before(const Args &a, const StripView &s) {
    return leaving(a, s, s.strip + s.sign());
  }
  __device__ __forceinline__ void look() { before = ExitColumns::of(load_acquire(leaving_before(a, s))); }
  __device__ __forceinline__ void ask(int column) {
    if (column <= before.last) asked.load(AdjointWord<Real>::place(a, s, column));
  }
  // E in the column that was asked for, as soon as the strip before has written it; 0 if that strip writes none there.
  __device__ __forceinline__ Real take(int column) {
    if (column > before.last) return 0;
    while (!asked.is_of(s.order - halves)) {
      if (before.end == none) look();
      if (before.end != none && column < before.end) return 0;
      back_off();
      asked.load(AdjointWord<Real>::place(a, s, column));
    }
    return asked.value();
  }
  // Whether it is known that no E enters in any column before `column`.
  __device__ __forceinline__ bool is_over(int column) {
    if (column <= 0) return true;
    if (before.end == none) look();
    return before.end != none && column <= before.end;
  }
};

}  // namespace sdtw::cuda
