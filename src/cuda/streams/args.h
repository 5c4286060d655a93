// The arguments of the streams' kernels. The host fills Args once per call (streams/backend.cu); kernels get it by
// value and never change it.
//
// Streams compute values, without state, of very many pairs of short series of few features. A warp has the rows
// of one x, and the columns of many y go through it, one series behind the other without a gap: a lane begins the next
// pair as soon as it has ended the one before. So x is loaded once, and the steps in which lanes wait for the first
// column to reach them are paid once for all pairs of a task.
#pragma once

#include <cstdint>

#include "core/band.h"
#include "core/numbers.h"
#include "cuda/general/args.h"

namespace sdtw::cuda::streams {

// Counters of a call, zero at its beginning.
struct Control {
  Word ticket[2];  // tasks that have been taken, of the first kernel and of the second
  int left;        // 1 if there are pairs that the first has left, whose values are `mark` until then
  int unused;
};

// Narrow corridors of series that all have the same lengths: see turns.cuh, where K rows are a turn.
struct TurnsOfPair {
  int lanes;                        // of a stream; 0: rows have a lane each
  int least, width;                 // first column that the corridor admits of row 0, and how many it admits of any
  int of_pair;                      // turns
  int end_turn, end_step, end_row;  // where the last cell is: the step of its turn, and the row
};
// Of many features fewer would leave a lane more columns to load at a time than it has registers for.
constexpr int least_lanes_of_turns(int features) { return features > 4 ? 8 : 4; }

struct Args {
  general::Series x, y;
  const void *x_len, *y_len;  // of series; null: all are n, or m
  bool long_lengths;
  bool every_pair, symmetric;  // pair (i, j) is x_i with y_j, symmetric: i <= j; else pair j is x_j with y_j
  int64_t batch_x, batch_y;
  int n, m, features;  // padded
  sdtw_metric metric;  // SDTW_SQEUCLIDEAN, SDTW_CITYBLOCK or SDTW_EUCLIDEAN
  double scale;        // log2(e) / gamma; 0: gamma = 0
  Root root;
  core::Band band;  // its kind, and what it has as radius: sizes are those of a pair
  int reach;        // that radius, of a band that is no parallelogram
  bool exchanged;   // x are the caller's y, whose parallelograms are not the same
  int warps;        // that have the rows of one x: more than one are a block
  bool halves;      // Group::halves
  int lane_bits;    // log2 of the lanes that have the rows of one x; 5 if there are several warps
  TurnsOfPair turns;
  int64_t range;  // of every pair: how many y a task has
  int64_t ranges, tasks;
  float *value;
  int64_t value_stride[2];  // of the value of x_i with y_j, in i and j: x and y may have changed places
  Control *control;
  Word *rows;  // of the exact kernel: for each of its warps a row of m cells of two words; null if one strip suffices
};

constexpr int warps_alone = 4;  // of a block, if a warp has the rows of one x, or lanes take turns

constexpr int most_warps = max_stream_warps;  // that have the rows of one x
// Of those of a half, for which registers suffice.
template <class Rows>
constexpr int most_of_half = Rows::features == 1   ? most_warps
                             : Rows::features == 2 ? most_warps - 1
                                                   : most_warps / 2;

// What takes a task: a warp, or one of two or four streams in it; a block, of which each warp has some of the rows, or
// all but one have, which puts columns into the ring, as all would wait for one that did both; or the two halves of a
// block, of which one goes through the columns from the first on and the other from the last one, with all rows each,
// until they meet: two warps that wait for their own results take half as long as one. One warp more feeds each.
enum class Group { warp, block, fed_block, halves };
template <Group group>
constexpr bool is_fed = group == Group::fed_block || group == Group::halves;
// The fewest warps that have rows of a block that is fed. Two are better joined by other blocks' rows, and so are all
// at gamma = 0; more features leave too few registers.
template <class Rows>
constexpr int least_of_fed = Rows::soft &&Rows::features <= 4 ? 3 : most_warps + 1;

// Items, which are what the columns of a stream are made of (stream.cuh), have at least so many columns.
constexpr int least_columns = 17;
SDTW_HOST_DEVICE constexpr int columns_of_item(int m) { return m + 1 > least_columns ? m + 1 : least_columns; }

template <class Rows>
struct Kernels {
  // Groups of lanes with an x of their own that are resident at once.
  static int64_t resident(const Args &a);
  static void launch(const Args &a, cudaStream_t stream);
  // The same by turns, of first kernels with a band: blocks. None are resident where there is no room for them.
  static int64_t resident_of_turns(const Args &a);
  static void launch_turns(const Args &a, cudaStream_t stream);
};

}  // namespace sdtw::cuda::streams
