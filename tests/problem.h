// One line is one problem, as in oneDNN's benchdnn: what failing tests print, sdtw_differential reads, and tests are
// written in.
//
//   metric=cityblock dtype=f16 B=3 n=40 m=52 d=7 gamma=0.1 band=sakoe_chiba:5 weights=2,1,1 penalties=0,1,1 lengths=7
//   pairs=all state=no layout=transposed data=noise grad=random tangents=xy seed=42
//
// metric     precomputed, sqeuclidean, euclidean, cityblock, cosine         dtype      f32, f64, f16, bf16
// B          pairs, or series of x; 3x4: of x and of y, with pairs=all      n, m, d    padded lengths, features
// gamma      0 is hard DTW                                                  band       none, or KIND:RADIUS
// weights, penalties   of diagonal, vertical and horizontal steps           pairs      batch, all, symmetric
// lengths    each series' own, drawn from this one up to the padded         bits       of lengths: 32, 64
// state      yes; no: every call computes anew; none: the value alone       layout     a name, one for each of x, y,
// values     yes: also of other calls that compute anew; no                            grad_x, grad_y, alignment; or
// data       a name of data.h; mixed: another for each pair; normal: as random_case     mixed
// scale      of data                                                        spoil      nan, inf, infs (in y, too), or
// grad       ones, random: upstream gradients                                          length: what is wrong in it
// tangents   none, x, y, xy: with sdtw_jvp                                  seed       of all that is random
// threads, isa, device   as sdtw_exec has them                              kernels    core: of CUDA, none for short
//                                                                                       pairs; warps: of these, by
//                                                                                       warps by themselves
#pragma once

#include "data.h"

namespace test {

// The case of a line. Throws std::runtime_error where the line is none.
Case problem(const std::string &line);

}  // namespace test
