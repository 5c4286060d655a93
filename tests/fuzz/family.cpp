// Problems of the whole family, drawn from a seed as the random differential driver draws them: for the sanitizers,
// which see what is computed of them.
#include "backends.h"
#include "draw_problem.h"
#include "fuzz.h"
#include "judge.h"

namespace test {

void fuzz_family(Bytes &bytes) {
  constexpr int64_t cells = 60000;  // of a few problems; of most a twentieth, as sanitizers are slow
  const std::string line = draw_line(bytes.word(6), cells);
  Case c = problem(line);
  const std::vector<Backend> all = backends();
  c.exec.cpu_isa = all[bytes.below(static_cast<int64_t>(all.size()))].isa;
  c.exec.num_threads = bytes.seldom(8) ? 3 : 1;
  c.checks_memory = true;
  if (options().table) std::fprintf(stderr, "%s\n", describe(c).c_str());
  Errors over;
  bool refused = false;
  const std::vector<std::string> faults = compute_and_judge(c, true, over, refused);
  if (!faults.empty()) throw std::runtime_error(faults[0] + " of " + describe(c));
}

}  // namespace test
