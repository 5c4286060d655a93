#include "draw_problem.h"

#include "plan.h"

namespace test {

namespace {

// A length: any up to 300, or near a border of tiles, strips and warps.
int64_t draw_length(Random &random) {
  constexpr int64_t borders[] = {1, 16, 32, 64, 96, 128, 192, 256, 257, 384, 512, 640, 768, 900};
  const double kind = random.uniform();
  if (kind < 0.15) return random.integer(1, 12);
  if (kind < 0.75) return random.integer(1, 300);
  return std::max<int64_t>(1, one_of(random, borders) + random.integer(-2, 2));
}

int64_t draw_features(Random &random) {
  const double kind = random.uniform();
  if (kind < 0.4) return random.integer(1, 2);
  if (kind < 0.7) return random.integer(3, 16);
  return kind < 0.95 ? random.integer(17, 130) : random.integer(129, 600);
}

void draw_band(std::ostream &line, Random &random, int64_t n, int64_t m, double share) {
  if (random.uniform() < share) {
    const auto band = static_cast<int>(random.integer(1, 3));
    // Up to wider than the matrix; and of slopes, from a single diagonal on.
    const double part = random.uniform() * random.uniform();
    double radius = std::floor(1.2 * part * static_cast<double>(std::max(n, m)));
    if (band == SDTW_BAND_ABSOLUTE && random.uniform() < 0.7) radius += static_cast<double>(std::abs(n - m));
    if (band == SDTW_BAND_ITAKURA) radius = 1 + 0.25 * static_cast<double>(random.integer(0, 16));
    line << " band=" << band_names[band] << ":" << radius;
  }
}

void draw_steps(std::ostream &line, Random &random, bool symmetric) {
  if (random.uniform() < 0.3) {
    double d = one_of(random, {1., 2., 0.5, 0.}), v = one_of(random, {1., 1.5, 0.25, 0.}),
           h = symmetric ? v : one_of(random, {1., 2., 0.75, 0.});
    if (random.uniform() < 0.3) h = v, d = 2 * v;  // the usual ones
    line << " weights=" << d << "," << v << "," << h;
  }
  if (random.uniform() < 0.3) {
    const double d = one_of(random, {0., -0.5, 0.125}), v = one_of(random, {0., 1., 4., -0.25}),
                 h = symmetric ? v : one_of(random, {0., 1., 16., -0.25});
    line << " penalties=" << d << "," << v << "," << h;
  }
}

void draw_lengths(Random &random, Shapes shapes, uint64_t seed, int64_t &cells, int64_t &n, int64_t &m) {
  const auto draw = [&](double least) { return static_cast<int64_t>(least * std::pow(15.0, random.uniform())); };
  if (shapes == Shapes::any) {
    n = draw_length(random), m = draw_length(random);
  } else if (shapes == Shapes::thin && random.uniform() < 0.8) {
    n = random.integer(1, 20), m = draw(200);
  } else if (shapes == Shapes::thin) {
    m = draw(3000), n = m / random.integer(60, 1500) + 1;
    cells *= 40;
  } else if (shapes == Shapes::large) {
    const double kind = random.uniform();
    n = draw(600), m = kind < 0.3 ? n : kind < 0.5 ? n + random.integer(-3, 3) : draw(600);
    cells *= random.uniform() < 0.8 ? 5 : 40;
  } else {
    n = static_cast<int64_t>(seed % 128) + 128 * random.integer(0, 3);
    if (n == 0) n = 128;
    const double kind = random.uniform();
    m = kind < 0.3 ? n : kind < 0.5 ? std::max<int64_t>(1, n + random.integer(-3, 3)) : random.integer(1, 600);
  }
  if (shapes != Shapes::any && random.uniform() < 0.5) std::swap(n, m);
  if (shapes == Shapes::residues) return;
  if (shapes != Shapes::large && random.uniform() < 0.95) cells /= 20;
  while (n * m > cells) (n > m ? n : m) = (n > m ? n : m) / 2 + 1;
}

}  // namespace

std::string draw_line(uint64_t seed, int64_t cells, Shapes shapes) {
  Random random(seed * 0x9e3779b97f4a7c15u + 1);
  std::ostringstream line;
  const double family = random.uniform();
  const bool core = family < 0.25, plain = !core && shapes == Shapes::residues && family < 0.75;
  const double metric = random.uniform(), type = random.uniform(), batching = random.uniform();
  const int kind = core    ? (metric < 0.7 ? SDTW_SQEUCLIDEAN : SDTW_PRECOMPUTED)
                   : plain ? SDTW_SQEUCLIDEAN
                           : static_cast<int>(std::size(metric_names) * metric);
  const int dtype = core || plain || type < 0.5 ? (type < 0.1 ? SDTW_F64 : SDTW_F32)
                    : type < 0.7                ? SDTW_F64
                    : type < 0.85               ? SDTW_F16
                                                : SDTW_BF16;
  const bool all = !core && batching < (plain ? 0.6 : 0.3),
             symmetric = all && batching < 0.12 && kind != SDTW_PRECOMPUTED;
  int64_t n = 0, m = 0;
  draw_lengths(random, shapes, seed, cells, n, m);
  if (symmetric) m = n = shapes == Shapes::thin ? std::min(n, m) : n;
  int64_t most = std::clamp<int64_t>(cells / (n * m), 1, 33);
  if (all) most = std::max<int64_t>(1, static_cast<int64_t>(std::sqrt(static_cast<double>(most))));
  line << "metric=" << metric_names[kind] << " dtype=" << dtype_names[dtype];
  line << " B=" << (random.uniform() < 0.2 ? 1 : random.integer(1, most));
  if (all && !symmetric) line << "x" << random.integer(1, most + 1);
  line << " n=" << n << " m=" << m;
  if (kind != SDTW_PRECOMPUTED) {
    int64_t d = plain && batching < 0.8 ? random.integer(1, 8) : draw_features(random);
    d = std::min<int64_t>(d, 400000000 / (n * m));  // seconds of the oracle
    line << " d=" << d;
  }
  const bool hard = !core && random.uniform() < (plain ? 0.3 : 0.12);
  // Where several paths are equally good to all digits of its type, only exact costs tell which is the first.
  const double gamma = std::pow(10.0, -4 + 6.5 * random.uniform());
  line << " gamma=" << (hard ? 0 : gamma);
  if (!core) draw_band(line, random, n, m, plain ? 0.6 : 0.35);
  if (!core && !plain) draw_steps(line, random, symmetric);
  if (all) line << " pairs=" << (symmetric ? "symmetric" : "all");
  const bool anew = !core && random.uniform() < 0.25;
  const bool alone = hard && random.uniform() < 0.5;  // values, which do not depend on which of equal paths is taken
  if (anew || alone) line << " state=" << (alone ? "none" : "no");
  if (random.uniform() < 0.3) line << " lengths=" << random.integer(0, std::min<int64_t>(n, 2) - 1);
  line << " bits=" << one_of(random, {32, 64});
  if (random.uniform() < 0.4) line << " layout=mixed";
  if (random.uniform() < 0.3) line << " grad=random";
  const bool along = !core && !hard && random.uniform() < 0.3;
  if (along) line << " tangents=" << one_of(random, {"x", "y", "xy"});
  const double alike = random.uniform();
  const auto data = hard && !alone && kind != SDTW_EUCLIDEAN && kind != SDTW_COSINE
                        ? Data::integers
                        : static_cast<Data>(random.integer(0, static_cast<int64_t>(Data::count) - 1));
  line << " data=" << (alike < 0.4 && !hard ? "mixed" : data_names[static_cast<size_t>(data)]);
  // A quarter as nobody has normalised it: costs of which exponents fill an int, and what engines there are beyond.
  const bool raw = random.uniform() < 0.25;
  // A twentieth of numbers whose squares, and what they are divided by, may leave the range of a float. Gradients are
  // above 1e-33: CUDA's atomic additions take numbers below 1.2e-38 as 0.
  const bool far = dtype != SDTW_F16 && random.uniform() < 0.05;
  const double digits = random.uniform();
  if (!hard && (alike >= 0.4 || far))
    line << " scale=" << std::pow(10.0, far ? -30 + 42 * digits : raw ? 1.5 + 3 * digits : -1.5 + 3 * digits);
  if ((anew || along) && !alone && random.uniform() < 0.3) line << " values=no";
  if (!core && random.uniform() < 0.06) line << " spoil=" << one_of(random, {"nan", "inf", "infs", "length"});
  const bool short_core = std::max(n, m) <= sdtw::cuda::most_steps_of_few && random.uniform() < 0.4;
  if (random.uniform() < 0.4)
    line << " kernels=" << one_of(random, {"warps", "inline"});
  else if (short_core)
    line << " kernels=core";
  line << " seed=" << seed;
  return line.str();
}

}  // namespace test
