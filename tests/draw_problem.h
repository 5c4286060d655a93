// Random problems of the whole family, as lines of problem.h: shapes on every residue of tiles, strips and warps, data
// of every kind, one seed.
#pragma once

#include "problem.h"

namespace test {

// thin: 1 to 20 steps beside 200 to 3000, where paths go straight on and rounding errors of alike costs add up; or 3000
// to 40 000 beside a 60th to a 1500th of that.
// residues: one length has the residue of the seed by 128, the rows of a strip, so that consecutive seeds have them
// all; the other one is equal, nearly equal or any; and half of the problems are plain: squared distances of few
// features, with bands and all pairs, but unit steps, which is where most kernels are.
// large: 600 to 9000 steps, of many strips, checkpoints and tiles of threads, in 5 or 40 times as many cells.
enum class Shapes { any, thin, residues, large };

// cells: how many a problem may have, most of them a twentieth of that.
std::string draw_line(uint64_t seed, int64_t cells, Shapes shapes = Shapes::any);

}  // namespace test
