// What a kernel is told: the problem, the caller's arrays, and where in state and workspace everything lies.
#pragma once

#include <cstdint>

#include "plan.h"
#include "sdtw.h"

namespace sdtw::cuda {

// State words are 64 bits wide. All ones is no value that a kernel writes: it marks a word that has not been written in
// this call, so that the data are their own flags.
using Word = unsigned long long;

// How a Z is stored: in one word, by the float engine as it has it, by the double one as core/packed.h has it; or as
// two doubles m and e, in two words.
enum Format : int { one_word, two_words };

// Where the paths of a pair cross between its two halves, as one of these meets it.
struct Midline {
  double m, e;      // Z of the pair as it is found there, m 2^e
  int first, last;  // columns: what crosses outside of them is negligible
};

// A pair of several strips is swept from both ends: one half from the top down, the other from the bottom up.
constexpr int halves = 2;

// Of E as it goes from strip to strip, in a column: as many as the wider engine takes, so that no pair's words lie
// where the other engine has left another's.
constexpr int flow_words = 2;

// Counters of one call; every one begins at -1 (all ones).
struct Control {
  Word ticket[3];  // the next task of the float engine, of the double one and of the float one with large costs, less
                   // one
  int any_double;  // 1 if the double engine has something to do
  int any_large;   // 1 if there are pairs of costs too large for a WordRing
  int rows_reset;  // pairs whose rows the double engine has seen to, less one
  int unused[7];
};
static_assert(sizeof(Control) == 64, "the arrays behind it stay aligned");

// What became of a pair in forward.
enum Status : int { status_finite = 0, status_unreachable = 1, status_not_a_number = 2 };

struct Args {
  sdtw_in x, y;
  const void *x_len, *y_len;
  void *value;
  const void *grad_value;
  sdtw_out grad_x, grad_y;
  sdtw_out dense;    // the alignment, or the gradient of a given cost: one element a cell
  bool scale_dense;  // by grad_value
  bool f64, long_lengths;
  Costs costs;
  int64_t batch;
  int n, m, features;
  double scale;  // log2(e) / gamma

  int lanes;         // of a warp for a pair: 32, or fewer if that is enough for all its rows
  int lane_bits;     // log2(lanes)
  int64_t tasks;     // a strip, or 32 / lanes pairs
  int strips;        // of n rows
  Format format;     // of what is stored
  int interval;      // steps between checkpoints
  int checkpoints;   // of a task: after step interval, 2 interval, ...
  Control *control;  // of this call
  int *bounds;       // [batch][bounds_per_pair]: which engine a pair is for; see pair.cuh
  int *status;       // [batch]
  double *norms;     // of points of series of many features; see pair.cuh
  bool full_sweeps;  // both sweeps of a pair go through all of its strips, rather than to the middle
  Word *rows;        // [batch][strips][m]: Z of the row that each strip hands on, as its sweep met the columns; or if
                     // both sweeps go through, of the one and then of the other: [batch][halves][strips][m]
  Word *saved;       // [tasks][checkpoints][K + 1][32]: a strip's registers; null: forward keeps no state

  int tile_steps;     // backward: steps of a tile
  int tile_bits;      // log2 of that
  int part_bits;      // log2(interval / tile_steps)
  Midline *midlines;  // backward: see midline_into
  Word *left;         // backward: [batch][strips]: the columns in which E leaves a strip; see adjoint_handoff.cuh
  Word *flows;        // backward: [batch][halves][m][flow_words]: that E
  bool wide_sums;     // backward: grad_x, grad_y and side are sums in double, which the last kernel rounds
  sdtw_out side;      // backward: what the lower half adds to grad_y where the upper one adds as well, and
  int lower_grad_y_columns;  // of how many columns of a pair there is room for that
  int cost_columns;          // backward: whose costs are in shared memory at a time, where there are producers
  Word *snapshots;           // backward: like checkpoints, of the tiles between two of them
  int snapshots_each;        // backward: for a checkpoint; 0 if none are taken
  int *progress;  // backward: [batch][strips], in the order in which strips add to grad_y: 2^30 less the column
                  // from which on a strip's part is complete
};

}  // namespace sdtw::cuda
