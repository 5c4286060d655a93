// The sweep of Z (or R) through a tile, by a warp, with derivatives along tangents if wanted (Cuturi and Blondel 2017,
// Algorithm 1; of tangents Mensch and Blondel 2018, Algorithm 2). As in sweep/strip.cuh lane l is at column t - l in
// step t, and tiles are parallelograms; forbidden cells are cells like any other.
#pragma once

#include "cuda/general/costs.cuh"
#include "cuda/general/derivative.cuh"

namespace sdtw::cuda::general {

// A lane's registers in the sweep of Z. waits: in forward, where cells of the row above may not be there yet. In
// backward they are, unless the lengths of the pair are not those of its forward: then nothing is right, but nobody
// waits for ever.
//
// A reversed sweep goes through the same recurrence from the pair's end, since every path has its cells' costs and its
// steps' penalties in either order. Where steps differ in weight that is not so: Z of a cell has the cost of the step
// into it, and from the end it is the costs of the steps into the three cells that follow that count. So cells are kept
// there as those before them see them (`step_back`).
template <class Cell, bool tangents, int T, bool waits>
struct Sweep {
  using Z = typename Cell::Z;
  using Real = typename Cell::Real;
  using Dot = Derivative<Cell>;
  using Weight = std::conditional_t<std::is_same_v<Dot, double>, double, float>;
  using Tile = Planes<Cell, tangents, T>;
  static constexpr int together = T < Cell::together ? T : Cell::together;  // steps between two renormalisations
  static constexpr int unrolled =
      Cell::wide || !Cell::soft || !waits ? 2 : 4;  // in backward code of four roles shares a cache
  static constexpr bool differs = waits && Cell::soft && Cell::weighted;  // if reversed
  static constexpr bool tracks = waits && !Cell::soft;

  const Args &a;
  const Task &s;
  const Block &block;
  typename Cell::Steps steps;
  Z z[K], above;          // as in Strip
  Dot dot[K], dot_above;  // the derivatives of R along the tangents; of
                          // forbidden cells anything finite
  Z corner;               // the cell in which the pair's paths end, in lane Task::end_lane
  Dot corner_dot;
  // Reversed, of weighted steps: z[k] as the cell to its left sees it, for a horizontal step; diag[k] for a diagonal
  // one; onwards: both steps out of the last row together.
  Z diag[differs ? K : 1], onwards;
  Dot dot_diag[differs ? K : 1], dot_onwards;
  Weight weights[transitions];  // of the steps
  // The column in which the best path to a cell has left the strip before.
  int from[tracks ? K : 1], from_above, from_corner;

  __device__ __forceinline__ Sweep(const Args &args, const Task &task, const Block &of)
      : a(args), s(task), block(of), steps(args) {
#pragma unroll
    for (int way = 0; way < transitions; way++) weights[way] = static_cast<Weight>(Cell::weighted ? a.weight[way] : 1);
  }

  // Before the strip's first tile, which begins with step `first`.
  __device__ __forceinline__ void start(int first) {
#pragma unroll
    for (int k = 0; k < K; k++) z[k] = Cell::forbidden(), dot[k] = {};
    above = corner = Cell::forbidden(), dot_above = corner_dot = {};
    if constexpr (differs) {
#pragma unroll
      for (int k = 0; k < K; k++) diag[k] = Cell::forbidden(), dot_diag[k] = {};
      onwards = Cell::forbidden(), dot_onwards = {};
    }
    if constexpr (tracks) {
#pragma unroll
      for (int k = 0; k < K; k++) from[k] = 0;
      from_above = first - 1, from_corner = 0;
    }
    if (lane_id() > 0) return;
    if (!s.follows()) {
      if (first > 0) return;
      const int spare = waits && s.reversed ? s.spare() : 0;
      if (spare == 0) above = steps.before_first();
#pragma unroll
      for (int k = 0; k < K - 1; k++) {
        Z &before = differs ? diag[differs ? k : 0] : z[k];
        before = Cell::choose(k == spare - 1, steps.before_first(), before);
      }
    } else if (differs && s.reversed) {
      return;  // what lies above has the diagonal steps in it
    } else if (first - 1 >= block.above_first && first - 1 < block.above_end) {
      Ahead corner_above{};
      corner_above.look(a, cell_above(first - 1));
      corner_above.take(a, above, dot_above);
    }
  }

  // A stored cell on its way. from: null where there is none.
  struct Ahead {
    const Word *from;
    Word word[2], dot;

    __device__ __forceinline__ void look(const Args &a, const Word *at) {
      from = at;
      if (at) load(a);
    }
    __device__ __forceinline__ void load(const Args &a) {
      word[0] = load_relaxed(from), word[1] = dot = ~Word(0);
      if (Cell::words(a.format) == 2) word[1] = load_relaxed(from + 1);
      if constexpr (tangents) dot = load_relaxed(from + a.words - 1);
    }
    __device__ __forceinline__ bool is_there() const { return word[0] && word[1] && dot; }
    // May wait for the strip above, whose block has an earlier ticket. Without a cell nothing changes.
    __device__ __forceinline__ void take(const Args &a, Z &z, Dot &its_dot) {
      if (!from) return;
      while (waits && !is_there()) {
        back_off();
        load(a);
      }
      z = Cell::unpack(word[0], word[1], a.format);
      Cell::renormalise(z);
      if constexpr (tangents) general::take(dot, its_dot);
    }
  };
  Ahead ahead;  // the cell above the strip in the lane's of the next steps

  // The cell of the row above the strip in a column, or null where that admits none.
  __device__ __forceinline__ const Word *cell_above(int column) const {
    if (column < block.above_first || column >= block.above_end) return nullptr;
    return row_got(a, s) + static_cast<int64_t>(column - block.above_first) * a.words;
  }
  // Begins to load what lies above the strip in the steps from `first` on.
  __device__ __forceinline__ void look_above(int first) {
    ahead.look(a, lane_id() < together ? cell_above(first + lane_id()) : nullptr);
  }

  // first: the step of the strip with which the tile begins. ends: the tile's step in which the pair ends, or none of
  // them. before: called with a step before those that are between two renormalisations. row: called in each of them,
  // with its number among them, for the last row. record: transitions take the place of costs.
  template <bool record, class Before, class Row>
  __device__ __forceinline__ void run(const Tile &tile, int first, int ends, Before before, Row row) {
#pragma unroll 1
    for (int u0 = 0; u0 < T; u0 += together) {
      Z top_here = Cell::forbidden();
      Dot dot_here{};
      ahead.take(a, top_here, dot_here);
      __syncwarp();
      look_above(first + u0 + together);
      before(u0);
      const auto one = [&](int i) {
        const Z top = Cell::of_lane(top_here, i);
        Dot dot_top{};
        if constexpr (tangents) dot_top = of_lane(dot_here, i);
        if (differs && s.reversed)
          step_back(tile, u0 + i, top, dot_top);
        else
          step<record>(tile, u0 + i, first + u0 + i, top, dot_top);
        row(i);
      };
      if (!waits || static_cast<unsigned>(ends - u0) >= together) {  // in backward nobody asks for the pair's value
#pragma unroll unrolled
        for (int i = 0; i < together; i++) one(i);
      } else {
#pragma unroll 1
        for (int i = 0; i < together; i++) {
          one(i);
          if (u0 + i != ends) continue;
#pragma unroll
          for (int k = 0; k < K; k++) {
            corner = Cell::choose(k == s.end_row(), z[k], corner);
            if constexpr (tangents) corner_dot = k == s.end_row() ? dot[k] : corner_dot;
            if constexpr (tracks) from_corner = k == s.end_row() ? from[k] : from_corner;
          }
        }
      }
#pragma unroll
      for (int k = 0; k < K; k++) Cell::renormalise(z[k]);
      Cell::renormalise(above);
      if constexpr (differs) {
#pragma unroll
        for (int k = 0; k < K; k++) Cell::renormalise(diag[k]);
        Cell::renormalise(onwards);
      }
    }
  }

  // What the strip hands on of its last row, in the last lane that has rows.
  __device__ __forceinline__ const Z &handed_on() const {
    if constexpr (differs) {
      if (s.reversed) return onwards;
    }
    return z[K - 1];
  }
  __device__ __forceinline__ const Dot &dot_handed_on() const {
    return differs && s.reversed ? dot_onwards : dot[K - 1];
  }

  // column: that of the first lane.
  template <bool record>
  __device__ __forceinline__ void step(const Tile &tile, int u, int column, const Z &top, const Dot &dot_top) {
    typename Cell::Costs costs;
    costs.load(tile.base, T, u);
    Rows<Real> along{};
    if constexpr (tangents) along = *rows_at<Real>(tile.along, u);
    Z up = Cell::choose(lane_id() == 0, top, Cell::from_above(z[K - 1]));
    Z before = above;
    above = up;
    Dot dot_up{}, dot_before{};
    if constexpr (tangents) {
      dot_up = general::from_above(dot[K - 1]);
      dot_up = lane_id() == 0 ? dot_top : dot_up;
      dot_before = dot_above;
      dot_above = dot_up;
    }
    int from_up = 0, from_before = 0;
    if constexpr (tracks) {
      from_up = __shfl_up_sync(all_lanes, from[K - 1], 1);
      from_up = lane_id() == 0 ? column : from_up;
      from_before = from_above;
      from_above = from_up;
    }
    Rows<Real> p[transitions], bent[transitions];
#pragma unroll
    for (int k = 0; k < K; k++) {
      const Z left = z[k];
      Real of[transitions];
      if constexpr (tracks) {
        int chosen;
        z[k] = Cell::best(costs, k, steps, before, up, left, chosen);
        const int from_left = from[k];
        from[k] = chosen == diagonal ? from_before : chosen == vertical ? from_up : from_left;
        from_before = from_left, from_up = from[k];
        if constexpr (tangents)
#pragma unroll
          for (int way = 0; way < transitions; way++) of[way] = way == chosen ? 1 : 0;
      } else {
        z[k] = Cell::template next < record || tangents > (costs, k, steps, before, up, left, of);
      }
      if constexpr (record || tangents) Cell::normalise(of);
      if constexpr (tangents) {
        const Shares<Cell> shares(of);
        const auto change = static_cast<Weight>(along.v[k]);
        const Dot dots[transitions] = {dot_before, dot_up, dot[k]};
        Weight weight = 1;
        if constexpr (Cell::weighted) weight = shares.weight(weights);
        const Dot mean = shares.mean(dots, weight * change);
#pragma unroll
        for (int way = 0; way < transitions; way++) {
          const Dot ahead = plus(dots[way], weights[way], change);
          bent[way].v[k] = -of[way] * (static_cast<Real>(a.inverse_gamma) * rounded_difference<Real>(ahead, mean));
        }
        dot_before = dot[k], dot[k] = dot_up = mean;
      }
      if constexpr (record)
#pragma unroll
        for (int way = 0; way < transitions; way++) p[way].v[k] = of[way];
      before = left;
      up = z[k];
    }
    if constexpr (record) {
#pragma unroll
      for (int way = 0; way < transitions; way++) {
        *rows_at<Real>(tile.plane(way), u) = p[way];
        if constexpr (tangents) *rows_at<Real>(tile.plane(transitions + way), u) = bent[way];
      }
    }
  }

  // A step of a reversed sweep of weighted steps. top: `onwards` of the strip before.
  __device__ __forceinline__ void step_back(const Tile &tile, int u, const Z &top, const Dot &dot_top) {
    if constexpr (differs) {
      typename Cell::Costs costs;
      costs.load(tile.base, T, u);
      Rows<Real> along{};
      if constexpr (tangents) along = *rows_at<Real>(tile.along, u);
      Z up = Cell::choose(lane_id() == 0, top, Cell::from_above(onwards)), before = above;
      above = Cell::forbidden();
      Dot dot_up{}, dot_before = dot_above;
      if constexpr (tangents) {
        dot_up = general::from_above(dot_onwards);
        dot_up = lane_id() == 0 ? dot_top : dot_up;
      }
#pragma unroll
      for (int k = 0; k < K; k++) {
        Real of[transitions];
        const Z all = Cell::gather(before, up, z[k], of);
        Dot mean{};
        if constexpr (tangents) {
          Cell::normalise(of);
          mean = Shares<Cell>(of).mean({dot_before, dot_up, dot[k]}, 0);
        }
        const auto dot_of = [&](int way) { return plus(mean, weights[way], static_cast<Weight>(along.v[k])); };
        before = diag[k], up = Cell::enter(costs, k, all, vertical);
        diag[k] = Cell::enter(costs, k, all, diagonal), z[k] = Cell::enter(costs, k, all, horizontal);
        if constexpr (tangents) {
          dot_before = dot_diag[k], dot_up = dot_of(vertical);
          dot_diag[k] = dot_of(diagonal), dot[k] = dot_of(horizontal);
        }
      }
      Real of[2];
      onwards = Cell::sum(before, up, of);
      if constexpr (tangents) {
        const auto share = static_cast<Weight>(of[1] / (of[0] + of[1]));
        dot_onwards = between(dot_before, dot_up, share);
      }
    }
  }

  // Checkpoints: [K + 1][32 lanes][words].
  __device__ __forceinline__ void save(Word *to) const {
#pragma unroll
    for (int k = 0; k <= K; k++) {
      Word *cell = to + (k * warp + lane_id()) * a.words;
      Cell::store(cell, a.format, k < K ? z[k < K ? k : 0] : above);
      if constexpr (tangents) store_relaxed(cell + a.words - 1, word_of(k < K ? dot[k < K ? k : 0] : dot_above));
    }
  }
  // From where `load` loads a word.
  template <class Load>
  __device__ __forceinline__ void restore_by(const Word *from, const Load &load) {
#pragma unroll
    for (int k = 0; k <= K; k++) {
      const Word *cell = from + (k * warp + lane_id()) * a.words;
      const Word second = Cell::words(a.format) == 2 ? load(cell + 1) : ~Word(0);
      const Z here = Cell::unpack(load(cell), second, a.format);
      Dot dot_here{};
      if constexpr (tangents) general::take(load(cell + a.words - 1), dot_here);
      if (k < K)
        z[k < K ? k : 0] = here, dot[k < K ? k : 0] = dot_here;
      else
        above = here, dot_above = dot_here;
    }
  }
  __device__ __forceinline__ void restore(const Word *from) {
    restore_by(from, [](const Word *word) { return load_relaxed(word); });
  }
  // One that an earlier kernel has left comes into shared memory while the warp sweeps another tile.
  __device__ __forceinline__ void fetch(Word *to, const Word *from) const {
    __pipeline_wait_prior(0);  // for one that was not used
    for (int i = 0; i < (K + 1) * a.words; i++) {
      const int at = (i / a.words * warp + lane_id()) * a.words + i % a.words;
      __pipeline_memcpy_async(to + at, from + at, sizeof(Word));
    }
    __pipeline_commit();
  }
  __device__ __forceinline__ void restore_fetched(const Word *from) {
    __pipeline_wait_prior(0);
    restore_by(from, [](const Word *word) { return *word; });
  }
};

}  // namespace sdtw::cuda::general
