#include "case.h"

#include "plan.h"

namespace test {

bool same(const std::vector<double> &a, const std::vector<double> &b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](double p, double q) {
    return (std::isnan(p) && std::isnan(q)) || std::memcmp(&p, &q, sizeof p) == 0;
  });
}

Case make_case(sdtw_metric metric, int64_t batch, int64_t n, int64_t m, int64_t features, double gamma) {
  Case c{};
  sdtw_problem_init(&c.problem, sizeof c.problem);
  sdtw_exec_init(&c.exec, sizeof c.exec);
  c.problem.metric = metric;
  c.problem.batch_x = c.problem.batch_y = batch;
  c.problem.n = n;
  c.problem.m = m;
  c.problem.features = metric == SDTW_PRECOMPUTED ? 0 : features;
  c.problem.gamma = gamma;
  c.exec.device = options().device;
  c.exec.num_threads = 1;
  return c;
}

std::vector<sdtw_metric> metrics_of_series() {
  std::vector<sdtw_metric> result;
  for (const sdtw::names::Name &row : sdtw::names::metrics)
    if (row.value != SDTW_PRECOMPUTED) result.push_back(row.value);
  return result;
}

namespace {

// What of a case its line cannot tell, as a comment behind it, which problem.h does not read.
std::string untold(const Case &c) {
  const auto told = [&](const char *key) { return c.data.find(key) != std::string::npos; };
  std::string what;
  if (c.data.empty()) what += " series";
  if (!(c.x_len.empty() && c.y_len.empty()) && !told("lengths=")) what += " lengths";
  if (!c.grad_value.empty() && !told("grad=")) what += " gradients";
  return what.empty() ? "" : " # but of other" + what;
}

}  // namespace

std::string describe(const Case &c) {
  const sdtw_problem &p = c.problem;
  std::ostringstream text;
  text << "metric=" << metric_names[p.metric] << " dtype=" << dtype_names[p.dtype] << " B=" << p.batch_x;
  if (c.all_pairs() && !c.symmetric()) text << "x" << p.batch_y;
  text << " n=" << p.n << " m=" << p.m;
  if (c.fused()) text << " d=" << p.features;
  text.precision(17);
  text << " gamma=" << p.gamma;
  if (p.band != SDTW_BAND_NONE) text << " band=" << band_names[p.band] << ":" << p.band_radius;
  const auto three = [&](const char *name, const double(&v)[3]) {
    text << " " << name << "=" << v[0] << "," << v[1] << "," << v[2];
  };
  if (!c.unit_steps()) three("weights", p.step_weight), three("penalties", p.step_penalty);
  if (c.all_pairs()) text << " pairs=" << (c.symmetric() ? "symmetric" : "all");
  const bool tangents = !c.tangent_x.empty() || !c.tangent_y.empty();
  if (c.exec.flags & SDTW_NO_STATE) text << " state=" << (c.recompute ? "no" : "none");
  if ((c.recompute || tangents) && !(c.exec.flags & SDTW_WITH_VALUE)) text << " values=no";
  if (!c.x_len.empty() || !c.y_len.empty()) text << " bits=" << p.length_bits;
  const Layout *const layouts[] = {&c.layout_x, &c.layout_y, &c.layout_grad_x, &c.layout_grad_y, &c.layout_alignment};
  bool alike = true;
  for (const Layout *layout : layouts) alike &= std::string(layout->name) == c.layout_x.name;
  if (!alike || std::string(c.layout_x.name) != "contiguous") text << " layout=" << c.layout_x.name;
  for (size_t k = 1; k < std::size(layouts) && !alike; ++k) text << "," << layouts[k]->name;
  text << " threads=" << c.exec.num_threads;
  if (c.exec.cpu_isa != SDTW_CPU_ISA_AUTO) text << " isa=" << isa_names[c.exec.cpu_isa];
  if (c.core_kernels) text << " kernels=" << (c.warp_kernels ? "warps" : c.inline_costs ? "inline" : "core");
  text << " device=" << device_names[c.exec.device] << " " << (c.data.empty() ? "data=noise" : c.data) << untold(c);
  return text.str();
}

bool may_be_short(const Case &c) {
  const sdtw_problem &p = c.problem;
  return c.exec.device == SDTW_CUDA && !c.core_kernels && p.metric != SDTW_PRECOMPUTED && p.dtype != SDTW_F64 &&
         std::max(p.n, p.m) <= sdtw::cuda::most_steps_of_few;
}

bool sweeps_with_costs(const Case &c) {
  if (c.exec.device != SDTW_CUDA || !c.fused() || c.problem.dtype == SDTW_F64) return false;
  const sdtw::Plan plan = sdtw::make_plan(sdtw::validate(&c.problem), sdtw::validate(&c.exec));
  return c.inline_costs || plan.cuda.costs == sdtw::cuda::Costs::inlined;
}

void add_core(std::vector<Case> &cases) {
  if (!may_be_short(cases.back())) return;
  cases.push_back(cases.back());
  cases.back().core_kernels = true;
}

std::vector<Case> variants(const Case &base) {
  std::vector<Case> result;
  for (const Backend &backend : backends())
    for (const sdtw_dtype dtype : {SDTW_F32, SDTW_F64}) {
      result.push_back(base);
      result.back().problem.dtype = dtype;
      result.back().exec.device = backend.device;
      result.back().exec.cpu_isa = backend.isa;
      add_core(result);
    }
  return result;
}

}  // namespace test
