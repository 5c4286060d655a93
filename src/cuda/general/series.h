// Launchers of the kernels that work on whole series, before and after the sweeps of the general engine.
#pragma once

#include "cuda/general/args.h"
#include "cuda/launch.h"

namespace sdtw::cuda::general {

// One side of a call: x or y.
struct Side {
  int64_t batch;        // series, or pairs where costs are given
  int rows, features;   // padded; of the caller's points
  const void *lengths;  // [batch]; null: rows
  bool long_lengths;
};

// What one launch does for x, for y, or for both.
template <class Work>
struct OfSides {
  int count = 0;
  Work of[2];

  void add(const Work &work) { of[count++] = work; }
};

// Points divided by their norms, in double, with two features more (core/metric.h): [batch][rows][features + 2].
struct Normalised {
  double *points, *norms;  // norms: [batch][rows]
  double *directions;      // along the tangents; null: not wanted
  int marker;              // which of the two features marks a point of norm 0
};
struct Normalisation {
  Side side;
  Series points, tangents;
  Normalised to;
};
void launch_normalise(const OfSides<Normalisation> &sides, cudaStream_t stream);

// Writes 0 into [count][rows][columns] of a target; NaN where the status, if given, says so. Of given costs also NaN
// within the lengths of pairs that are finite, of which grad_value is not.
struct Zeros {
  Target to;
  int64_t count;
  int rows, columns;
  const int *status;
  const void *grad_value = nullptr;  // null: none is asked for
  bool f64_values = false;
  Side x = {}, y = {};
};
void launch_fill(const OfSides<Zeros> &fills, cudaStream_t stream);

// The same for a.dense of the wave's pairs and their transposes.
void launch_fill_symmetric(const Args &a, cudaStream_t stream);

// Gradients of pairs into the caller's array: sum times the pair's grad_value; where status is given, NaN and 0 as the
// results of the pair ask for. Cosine: projected, from the sums over the normalised points; turns: the derivative of
// these sums along the tangents, if it is the gradient's derivative that is wanted.
struct Finish {
  Side side;
  int64_t count;       // of the arrays below
  Target sums, turns;  // turns.data null: the gradient itself is wanted
  Target to;
  const void *grad_value;  // null: 1
  bool f64_values;
  const int *status;  // null: all are finite
  bool cosine;
  Normalised normalised;
  Series tangents;  // of the caller: of cosine only
};
void launch_finish(const OfSides<Finish> &finishes, cudaStream_t stream);

// A wave of all pairs.
struct PairsOfWave {
  bool symmetric;
  int64_t batch_x, batch_y;
  int64_t first, pairs;    // of those that are computed
  const int *status;       // [pairs]
  const void *grad_value;  // [batch_x][batch_y]; null: 1
  bool f64_values;
  int64_t first_x = 0, last_x = 0;  // of the wave: launch_reduce finds out
};
// Sums up the gradients of x, or of y, of a wave of pairs, times grad_value, for each of their series. Those of pairs
// are contiguous, float or double. adds: the sums are added to what is there, for series that have pairs in the wave;
// else the wave has all pairs.
void launch_reduce(PairsOfWave wave, const Target &of_pairs, const Target &to, bool of_x, bool adds,
                   cudaStream_t stream);

// Copies of series of a half type as float32, or of float32 as a half type, or with more features: rows beyond the
// lengths may be left out.
struct Conversion {
  Side side;
  Series from;
  Target to;
  int features;  // of `to`: what the series lack is 0
};
void launch_convert(const OfSides<Conversion> &conversions, cudaStream_t stream);

}  // namespace sdtw::cuda::general
