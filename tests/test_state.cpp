// What lies between forward and backward: lengths that have changed, and state that is damaged or another problem's. On
// the CPU each is refused by name, before anything is written.
#include "check.h"
#include "draw.h"
#include "draw_problem.h"
#include "family.h"

using namespace test;

namespace {

// Pairs in lanes, in strips, and in strips and lanes of which x and y have changed places.
struct Shape3 {
  int64_t batch, n, m;
};
constexpr Shape3 shapes[] = {{20, 30, 40}, {3, 150, 140}, {2, 1000, 3}, {3, 3, 1000}, {70, 600, 5}, {70, 5, 600}};

std::vector<Case> cases_with_lengths() {
  std::vector<Case> cases;
  uint64_t seed = 7700;
  for (const sdtw_metric metric : {SDTW_SQEUCLIDEAN, SDTW_PRECOMPUTED})
    for (const sdtw_dtype dtype : {SDTW_F32, SDTW_F64})
      for (const Shape3 &shape : shapes) {
        Random random(++seed);
        Case c = make_case(metric, shape.batch, shape.n, shape.m, 2, 1);
        with_lengths(fill(c, random), random);
        c.problem.dtype = dtype;
        cases.push_back(c);
      }
  return cases;
}

// The message of a call that is refused, "" if it is not.
template <class Call>
std::string refusal(Call &&call) {
  try {
    call();
    return "";
  } catch (const std::exception &error) {
    return error.what();
  }
}

std::string both_refusals(Session &session) {
  Result result;
  const std::string of_backward = refusal([&] { session.backward(result); });
  const std::string of_alignment = refusal([&] { session.alignment(); });
  return of_backward.empty() || of_alignment.empty() ? "" : of_backward + "\n" + of_alignment;
}

bool names(const std::string &message, const std::string &what) { return message.find(what) != std::string::npos; }

}  // namespace

// A GPU's lengths are not for the host to read.
TEST_CASE("lengths that are not those of forward are refused by name", "[state][cpu]") {
  for (const Case &c : cases_with_lengths())
    for (const bool of_x : {true, false}) {
      Session session(c);
      session.forward();
      const void *&lengths = of_x ? session.buffers().x_len : session.buffers().y_len;
      const void *const before = lengths;
      const std::vector<int64_t> &then = of_x ? c.x_len : c.y_len;
      for (const int64_t now : {int64_t(0), int64_t(-1), int64_t(1) << 40, INT64_MIN, int64_t(5000), int64_t(2)}) {
        std::vector<int64_t> changed = then;
        changed[1] = now;
        if (now == then[1]) continue;
        lengths = changed.data();
        const std::string message = both_refusals(session);
        INFO(describe(c) << " " << now << ": " << message);
        CHECK(names(message, (of_x ? "buffers.x_len[1] is " : "buffers.y_len[1] is ") + std::to_string(now) + ":"));
        CHECK(names(message, "wrote buffers.state, " + std::to_string(then[1])));
      }
      lengths = nullptr;  // every length is the padded one
      const int64_t padded = of_x ? c.problem.n : c.problem.m;
      const std::string message = both_refusals(session);
      INFO(message);
      if (std::count(then.begin(), then.end(), padded) < c.batch())
        CHECK(names(message, of_x ? "buffers.x_len[" : "buffers.y_len["));
      lengths = before;
      CHECK(refusal([&] { session.alignment(); }).empty());
    }
}

TEST_CASE("a length that was out of range, or 0, in forward stays so", "[state][cpu]") {
  for (Case c : cases_with_lengths())
    for (const int64_t then : {int64_t(0), int64_t(-1), int64_t(5000)}) {
      c.x_len[1] = then;
      Session session(c);
      session.forward();
      CHECK(refusal([&] { session.alignment(); }).empty());
      std::vector<int64_t> changed = c.x_len;
      changed[1] = c.problem.n;
      session.buffers().x_len = changed.data();
      const std::string message = both_refusals(session);
      INFO(message);
      CHECK(names(message, "buffers.x_len[1] is " + std::to_string(c.problem.n)));
      CHECK(names(message, then == 0 ? "buffers.state, 0" : "buffers.state, out of range"));
    }
}

TEST_CASE("state of another problem is refused", "[state][cpu]") {
  for (const Case &c : cases_with_lengths()) {
    Session session(c);
    session.forward();
    std::vector<Case> others(5, c);
    others[0].problem.gamma = 2;
    others[1].problem.dtype = c.problem.dtype == SDTW_F32 ? SDTW_F64 : SDTW_F32;
    others[2] = random_case(1, c.problem.metric, c.batch(), c.problem.n, c.problem.m + 1, 2, 1);
    others[3] = random_case(1, c.problem.metric, c.batch(), c.problem.m, c.problem.n, 2, 1);
    others[4] = random_case(1, c.problem.metric, c.batch() + 1, c.problem.n, c.problem.m, 2, 1);
    if (c.fused()) {  // each series of x with one of y
      Case &pairs = others.emplace_back(c);
      pairs.problem.flags |= SDTW_ALL_PAIRS;
      pairs.problem.batch_y = 1;
      pairs.y.resize(c.problem.m * c.problem.features);
      if (!pairs.y_len.empty()) pairs.y_len.resize(1);
    }
    for (const Case &other : others) {
      Session theirs(other);
      // As many bytes as it asks for, which begin as the one forward has left them.
      sdtw_buffers &buffers = theirs.buffers();
      std::memcpy(buffers.state, session.buffers().state, std::min(buffers.state_bytes, session.buffers().state_bytes));
      const std::string message = both_refusals(theirs);
      INFO(describe(other) << ": " << message);
      CHECK(names(message, "buffers.state was not written by sdtw_forward for this problem"));
    }
  }
}

TEST_CASE("damaged state is refused, or harmless", "[state][cpu]") {
  for (const Case &c : cases_with_lengths()) {
    Session session(c);
    session.forward();
    auto *const state = static_cast<unsigned char *>(session.buffers().state);
    const size_t bytes = session.buffers().state_bytes;
    const auto damage = [&](size_t at, unsigned char bits) {
      state[at] ^= bits;
      const std::string message = refusal([&] { session.alignment(); });
      state[at] ^= bits;
      return message;
    };
    INFO(describe(c));
    constexpr size_t header = 192, lengths = 8;
    // Hiding what a call must not read takes a hundred times as long as the call.
    const size_t every = has_address_sanitizer() ? 5 : 1;
    for (size_t at = 0; at < header; at += every)
      for (const unsigned char bits : {0x80, 0xff}) CHECK(names(damage(at, bits), "buffers.state"));
    for (size_t at = header; at < header + lengths * static_cast<size_t>(c.batch()); at += every)
      CHECK(names(damage(at, 0x40), "buffers.state"));
    // What became of pairs, their engines, and the first numbers.
    const size_t behind = header + (lengths * static_cast<size_t>(c.batch()) + 63) / 64 * 64;
    for (size_t at = behind; at < std::min(bytes, behind + 320); at += 7 * every)
      for (const unsigned char bits : {0x01, 0x02, 0x84, 0xff}) damage(at, bits);
    CHECK(refusal([&] { session.alignment(); }).empty());
  }
}

TEST_CASE("a damaged engine of a pair without a path does not stop those that follow it", "[state][cpu]") {
  for (const sdtw_dtype dtype : {SDTW_F32, SDTW_F64}) {
    Case c = problem("B=3x2 n=300 m=300 d=2 pairs=all seed=7951");
    c.problem.dtype = dtype;
    c.x_len = {300, 0, 300};
    Session session(c);
    session.forward();
    constexpr size_t engines = 192 + 64 + 64;  // behind lengths and what became of pairs
    auto *const state = static_cast<unsigned char *>(session.buffers().state);
    for (const size_t pair : {2, 3})
      for (const unsigned char engine : {0, 1, 2, 3, 200}) {
        const unsigned char before = std::exchange(state[engines + pair], engine);
        Result result;
        refusal([&] { session.backward(result); });  // which sees that state is another, once the call has ended
        state[engines + pair] = before;
      }
    Result result;
    session.backward(result);
    CHECK(close(result.grad_x, run(c).grad_x, 1e-6));
  }
}

// At gamma = 0 the path goes back by state and costs: where these do not fit together there is none.
TEST_CASE("backward of other inputs than forward's comes to an end", "[state][cpu]") {
  for (Case c : cases_with_lengths())
    for (const sdtw_band band : {SDTW_BAND_NONE, SDTW_BAND_SAKOE_CHIBA, SDTW_BAND_ITAKURA}) {
      c.problem.gamma = 0;
      c.problem.band = band;
      c.problem.band_radius = 3;
      Session session(c);
      session.forward();
      const uint64_t nan = UINT64_MAX;  // of any type
      session.buffers().x = {&nan, {0, 0, 0}};
      INFO(describe(c));
      CHECK(refusal([&] { session.alignment(); }).empty());
    }
}

TEST_CASE("whatever lengths have become on a GPU, nothing outside of the buffers is read or written", "[state][cuda]") {
  if (backends().empty()) return;  // main says that there is no GPU
  uint64_t seed = 7900;
  for (const sdtw_metric metric : {SDTW_SQEUCLIDEAN, SDTW_PRECOMPUTED})
    for (const sdtw_dtype dtype : {SDTW_F32, SDTW_F64})
      for (const int64_t features : {1, 5})
        for (const Shape3 &shape : {Shape3{20, 30, 40}, {5, 700, 300}, {3, 300, 700}, {130, 260, 20}}) {
          Random random(++seed);
          Case c = make_case(metric, shape.batch, shape.n, shape.m, features, std::pow(10.0, random.integer(-3, 2)));
          with_lengths(fill(c, random), random, 0);
          c.problem.dtype = dtype;
          c.exec.device = SDTW_CUDA;
          Session session(c);
          session.forward();
          Block lengths[2] = {{cuda_memory(), 8 * static_cast<size_t>(c.batch()), 0},
                              {cuda_memory(), 8 * static_cast<size_t>(c.batch()), 0}};
          for (Block &block : lengths) {
            auto *const of = reinterpret_cast<int64_t *>(block.image());
            const int64_t padded = &block == lengths ? shape.n : shape.m;
            for (int64_t b = 0; b < c.batch(); ++b)
              of[b] = one_of<int64_t>(random, {0, 1, padded, random.integer(0, padded), -1, padded + 1, INT64_MAX});
            block.upload();
          }
          session.buffers().x_len = lengths[0].data();
          session.buffers().y_len = lengths[1].data();
          Result result;
          CHECK(both_refusals(session) == "");
          CHECK_NOTHROW(session.backward(result));  // guards and gaps are looked at
          CHECK_NOTHROW(session.alignment());
        }
}

namespace {

std::vector<unsigned char> state_of_forward(Case c, unsigned char poison) {
  c.poison = poison;
  Session session(c);
  session.forward();
  const auto *const state = static_cast<const unsigned char *>(session.buffers().state);
  return {state, state + session.buffers().state_bytes};
}

// Random problems with bands, in memory that was 0 and in memory that was not, with one thread and with several.
void check_equal_states(uint64_t seed, const std::string &line) {
  Case c = problem(line);
  Random random(seed);
  if (c.problem.band == SDTW_BAND_NONE) {
    c.problem.band = static_cast<sdtw_band>(random.integer(1, 3));
    c.problem.band_radius = static_cast<double>(random.integer(1, 40));
  }
  c.exec.flags = 0;
  for (const Backend &backend : backends()) {
    c.exec.cpu_isa = backend.isa;
    c.exec.num_threads = 1;
    const std::vector<unsigned char> state = state_of_forward(c, 0x00);
    for (const int threads : {1, 3}) {
      c.exec.num_threads = threads;
      const bool equal = state_of_forward(c, 0xab) == state;
      INFO("sdtw_differential --problem '" << describe(c) << "'");
      CHECK(equal);
    }
  }
}

}  // namespace

TEST_CASE("equal calls leave equal state, whatever was in memory, with bands", "[state][cpu]") {
  const uint64_t count = has_address_sanitizer() ? 100 : 600;
  for (uint64_t seed = 1; seed <= count; ++seed) check_equal_states(seed, draw_line(seed, 60000));
  uint64_t seed = count;
  for (const char *shape : {"B=1 n=1500 m=1500", "B=2 n=1200 m=700", "B=2 n=600 m=1300", "B=40 n=60 m=70"})
    for (const char *band : {"sakoe_chiba:0", "sakoe_chiba:30", "absolute:10", "absolute:700", "itakura:1.2"})
      for (const char *rest : {" dtype=f32", " dtype=f64 gamma=0", " dtype=f32 gamma=1e-6", " lengths=0 metric=cosine"})
        check_equal_states(++seed, std::string(shape) + " d=2 data=noise band=" + band + rest + " seed=5");
}

// A boundary row takes what a strip of 64 rows goes through: the band's columns, one more a row, and of the last lanes;
// boundary columns are one every 64 of these, of 80 numbers. That of Sakoe and Chiba may be twice as wide of other
// lengths.
TEST_CASE("with a band state is no wider than the band", "[state][cpu]") {
  Case c = make_case(SDTW_SQEUCLIDEAN, 1, 10000, 10000, 1, 1);
  const auto bytes = [&](sdtw_band band, double radius) {
    c.problem.band = band, c.problem.band_radius = radius;
    sdtw_sizes sizes;
    sdtw_sizes_init(&sizes, sizeof sizes);
    REQUIRE(sdtw_get_sizes(&c.problem, &c.exec, &sizes) == SDTW_STATUS_OK);
    return static_cast<double>(sizes.state);
  };
  const auto bound = [&](double columns, double more_a_row) {
    const double tiles = std::ceil(10000. / 64), swept = columns + 64 * more_a_row + 20;
    return 512 + tiles * 8 * (swept + 80 * (swept / 64 + 1));
  };
  const double none = bytes(SDTW_BAND_NONE, 0);
  CHECK(none > 2e7);
  for (const double radius : {0., 10., 1000.})
    for (const sdtw_band band : {SDTW_BAND_SAKOE_CHIBA, SDTW_BAND_ABSOLUTE})
      CHECK(bytes(band, radius) <= bound((band == SDTW_BAND_ABSOLUTE ? 2 : 4) * radius + 1, 1));
  CHECK(bytes(SDTW_BAND_SAKOE_CHIBA, 10) < none / 60);
  CHECK(bytes(SDTW_BAND_SAKOE_CHIBA, 1e4) == none);
  CHECK(bytes(SDTW_BAND_SAKOE_CHIBA, 1e300) == none);
  for (const double slope : {1., 1.1, 2.})
    CHECK(bytes(SDTW_BAND_ITAKURA, slope) <= bound(10000 * (1 - 1 / slope), slope));
}

// Corridors follow lengths: of series of which one is shorter than the other they are wider than those of whole ones,
// for which state has room.
TEST_CASE("pairs that state has no room for are computed by backward", "[state][cpu]") {
  uint64_t seed = 0;
  for (const char *shape : {"B=5 n=400 m=400", "B=3 n=200 m=700", "B=3 n=700 m=200", "B=1 n=700 m=690"})
    for (const char *rule : {"", " gamma=0 data=integers", " weights=2,1,1", " tangents=xy"})
      for (const char *band : {" band=sakoe_chiba:2", " band=itakura:1.3"})
        for (const int threads : {1, 3}) {
          ++seed;
          std::ostringstream line;
          line << shape << rule << band << " threads=" << threads
               << " metric=" << metric_names[seed % std::size(metric_names)] << (seed % 5 ? " d=2" : "")
               << " dtype=" << every_type[seed % 4] << " lengths=0 grad=random seed=" << seed;
          check_line(line.str());
        }
}
