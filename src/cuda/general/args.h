// The arguments of the general engine's kernels. The host fills Args once per launch (general/backend.cu); kernels get
// it by value and never change it.
//
// The general engine computes whatever the core kernels do not (choose_route in plan_cuda.cpp): other metrics, types,
// bands, steps, gamma = 0, all pairs, tangents. A block takes a strip of a pair, 128 rows, and goes through its tiles:
// some of its warps fill a tile with costs, another one sweeps it. If backward is to follow, forward sweeps from the
// last row to the first, too (at gamma = 0 it notes through which column the best path comes instead), so that it is
// known where E enters each strip before E is swept anywhere, and no strip of backward waits for another.
//
// A launch takes `pairs` pairs from `first` on, a wave; arrays of state and workspace are indexed by the pair's number
// in the wave. Invariant: what is reset at the beginning of a wave is zeros: tickets, flags, rows, and all progress.
#pragma once

#include <cstdint>

#include "core/band.h"
#include "cuda/args.h"
#include "cuda/room.h"
#include "sdtw.h"

namespace sdtw::cuda::general {

constexpr int at_once = 8;  // features that come to costs together

// An array that is read, of its own type.
struct Series {
  const void *data;
  int64_t stride[3];
  sdtw_dtype dtype;
};

// A dense output, or gradients that are summed up: [pairs or series][rows][columns] of a type.
struct Target {
  void *data;  // null: not wanted
  int64_t stride[3];
  sdtw_dtype dtype;
};

// Of a pair: bits of Args::flags.
enum Flag : int {
  rejected = 1,     // its costs, or its shape, are the double engine's
  not_a_number = 2  // NaN, a cost of -infinity, or one that no exponent can hold
};

struct Args {
  Series x, y;                  // series, or in x the given costs
  Series tangent_x, tangent_y;  // no data: zeros
  Series of_x, of_y;            // x and y as gradients read them
  const void *x_len, *y_len;    // of series, or of pairs where costs are given; null: all are n, or m
  bool long_lengths;
  bool fused;                 // costs are of series
  bool all_pairs, symmetric;  // which series a pair is made of: pair_at in task.cuh
  int64_t batch_x, batch_y;
  int64_t first, pairs;  // the wave
  int n, m, features;    // padded; features of the points that gradients are made of
  int cost_features;     // and of those that costs are made of
  sdtw_metric metric;
  core::Band band;       // n and m are each pair's own
  double scale;          // log2(e) / gamma, or 1 if gamma is 0
  double inverse_gamma;  // 0 if gamma is 0
  double weight[3];      // of steps: diagonal, vertical, horizontal
  double least_weight;   // as in general::Plan
  double penalty[3];     // times scale, as penalties.h has them
  double row_penalty;    // what paths have too much in them for each row but the first, and for each column
  double column_penalty;
  double out_weight[3];  // of the steps into a cell, in what backward makes of E: weight, or 1 for the alignment
  bool f64_values;       // values are float64
  bool products;         // costs come from products of the float points that the caller has given (products.cuh)
  bool resident;         // forward has all features of a strip's points in shared memory
  bool alone;            // and each block a multiprocessor to itself
  bool primary;          // the engine takes all pairs, not only those that the float engine has rejected
  Format format;         // of a stored Z
  int words;             // of a stored cell, its tangent included
  int strips;            // of n rows
  int interval;          // steps between two checkpoints
  int slots;             // checkpoints of a strip
  int64_t row_columns;   // columns of a row that a strip hands on
  int64_t tasks;
  Word *ticket;
  int *any_double;   // 1 if there are rejected pairs
  int *flags;        // [pairs]
  int *status;       // [pairs]: a Status each
  Word *rows_reset;  // forward of rejected pairs: how many of all pairs need no rows to be reset any more
  int *done;         // forward: [pairs][strips]: 1 once the strip and all above it have been swept
  Word *rows;        // [pairs][strips][row_columns][words], zeros before forward: the last row of each strip
  Word
      *rows_below;  // likewise, of the sweep from the end: what lies below the last row of each strip; null: not wanted
  int *crossings;   // [pairs][strips][row_columns]: in which column the best path to a cell of the strip's last row, or
                    // in the pair's last strip to its end, has left the strip before; null: not wanted
  Word *saved;      // [pairs][strips][slots][5 * 32][words]; null: none are kept
  void *value, *value_tangent;

  // Backward.
  const void *grad_value;
  Entrance *entrances;    // [pairs][strips]
  Word *snapshots;        // [pairs][strips][interval / 2 halves of a tile - 1][5 * 32][words]
  int *graded;            // [pairs][strips]: columns, from the last on, to which the strip has added its gradients
  Target sum_x, sum_y;    // sums of gradients, each pair's own, float or double
  Target turn_x, turn_y;  // of tangents: sums of the gradients' derivatives
  Target dense;           // the alignment, the gradient of a given cost, or its derivative
  bool scale_dense;       // whether dense is multiplied by grad_value
  int feature_slots;      // of the ring through which features come to costs
  int staged;             // features of the points that gradients are made of for which shared memory has room
  bool shared_rows;       // x of costs stays in shared memory, all of its features
};

// The GPUs that kernels with small tiles and those with large ones are for. Large ones have room for some problems only
// in less than 163 KB in forward, and in 163 KB in backward, and for none in less than that.
template <bool small>
constexpr Room forward_rooms = small ? room_of_64 | room_of_99 : any_room;
template <bool small>
constexpr Room backward_rooms = small ? room_of_64 | room_of_99 | room_of_163 : room_of_163 | room_of_227;

// The kernels of the engine that take tasks: how much dynamic shared memory a block needs, and how they are launched.
// small: with smaller tiles.
template <class Cell, bool tangents, bool small>
struct Kernels {
  static size_t forward_bytes(const Args &a);
  // Whether forward may keep all features in shared memory, if they have room there.
  static bool may_be_resident(const Args &a);
  // Sets feature_slots and staged for so much shared memory. Returns whether that is enough.
  static bool fit_backward(Args &a, size_t room);
  static void forward(const Args &a, cudaStream_t stream);
  static void backward(const Args &a, cudaStream_t stream);
};

}  // namespace sdtw::cuda::general
