#include "problem.h"

#include <algorithm>
#include <map>

namespace test {

namespace {

// The words of a line, each asked for at most once; what nobody asked for is an error.
class Words {
 public:
  explicit Words(const std::string &line) {
    std::istringstream in(line);
    for (std::string word; in >> word;) {
      if (word[0] == '#') break;
      const size_t at = word.find('=');
      if (at == std::string::npos) throw std::runtime_error("'" + word + "' is no key=value");
      if (!words_.emplace(word.substr(0, at), word.substr(at + 1)).second)
        throw std::runtime_error("'" + word.substr(0, at) + "' is given twice");
    }
  }
  std::string text(const std::string &key, const std::string &otherwise) {
    const auto found = words_.find(key);
    if (found == words_.end()) return otherwise;
    const std::string value = found->second;
    words_.erase(found);
    return value;
  }
  double number(const std::string &key, double otherwise) {
    const std::string value = text(key, "");
    return value.empty() ? otherwise : to_number(key, value);
  }
  int64_t integer(const std::string &key, int64_t otherwise) {
    return static_cast<int64_t>(number(key, static_cast<double>(otherwise)));
  }
  template <class Names>
  int32_t choice(const std::string &key, const char *otherwise, const Names &names) {
    const std::string value = text(key, otherwise);
    for (size_t k = 0; k < std::size(names); ++k)
      if (value == names[k]) return static_cast<int32_t>(k);
    throw std::runtime_error(key + "=" + value + " is not known");
  }
  void finish() const {
    if (!words_.empty()) throw std::runtime_error("'" + words_.begin()->first + "' is no key of a problem");
  }
  static double to_number(const std::string &key, const std::string &value) {
    size_t end = 0;
    double result = 0;
    try {
      result = std::stod(value, &end);
    } catch (const std::exception &) {
    }
    if (end != value.size()) throw std::runtime_error(key + "=" + value + " is no number");
    return result;
  }

 private:
  std::map<std::string, std::string> words_;
};

std::vector<std::string> split(const std::string &text, char by) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, by);) parts.push_back(part);
  return parts;
}

void read_shape(Words &words, Case &c) {
  const auto sizes = split(words.text("B", "1"), 'x');
  const std::string pairs = words.text("pairs", "batch");
  sdtw_problem &p = c.problem;
  p.batch_x = static_cast<int64_t>(Words::to_number("B", sizes.at(0)));
  p.batch_y = sizes.size() > 1 ? static_cast<int64_t>(Words::to_number("B", sizes[1])) : p.batch_x;
  if (pairs != "batch" && pairs != "all" && pairs != "symmetric")
    throw std::runtime_error("pairs=" + pairs + " is not known");
  if (pairs != "batch") p.flags |= SDTW_ALL_PAIRS;
  if (pairs == "symmetric") p.flags |= SDTW_SYMMETRIC;
  p.n = words.integer("n", 1);
  p.m = words.integer("m", p.n);
  p.features = words.integer("d", c.fused() ? 1 : 0);
  p.gamma = words.number("gamma", 1);
  p.length_bits = static_cast<int32_t>(words.integer("bits", 64));
}

void read_rules(Words &words, Case &c) {
  sdtw_problem &p = c.problem;
  const auto band = split(words.text("band", "none"), ':');
  for (size_t k = 0; k < std::size(band_names); ++k)
    if (band.at(0) == band_names[k]) p.band = static_cast<sdtw_band>(k);
  if (band[0] != band_names[p.band]) throw std::runtime_error("band=" + band[0] + " is not known");
  if (band.size() > 1) p.band_radius = Words::to_number("band", band[1]);
  const auto three = [&](const char *key, double(&to)[3]) {
    const auto parts = split(words.text(key, ""), ',');
    if (!parts.empty() && parts.size() != 3) throw std::runtime_error(std::string(key) + " are three");
    for (size_t k = 0; k < parts.size(); ++k) to[k] = Words::to_number(key, parts[k]);
  };
  three("weights", p.step_weight);
  three("penalties", p.step_penalty);
}

void read_exec(Words &words, Case &c) {
  const std::string state = words.text("state", "yes");
  if (state != "yes" && state != "no" && state != "none") throw std::runtime_error("state=" + state + " is not known");
  if (state != "yes") c.exec.flags |= SDTW_NO_STATE;
  c.recompute = state == "no";
  static constexpr const char *no_or_yes[] = {"no", "yes"};
  if (words.choice("values", "yes", no_or_yes)) c.exec.flags |= SDTW_WITH_VALUE;
  c.exec.num_threads = static_cast<int32_t>(words.integer("threads", 1));
  c.exec.cpu_isa = words.choice("isa", "auto", isa_names);
  static constexpr const char *kernels[] = {"any", "core", "warps", "inline"};
  const int chosen = words.choice("kernels", "any", kernels);
  c.core_kernels = chosen > 0, c.warp_kernels = chosen == 2, c.inline_costs = chosen == 3;
  c.exec.device = words.choice("device", device_names[options().device], device_names);
}

void read_layouts(Words &words, Case &c, Random random) {
  const auto names = split(words.text("layout", "contiguous"), ',');
  Layout *const layouts[] = {&c.layout_x, &c.layout_y, &c.layout_grad_x, &c.layout_grad_y, &c.layout_alignment};
  for (size_t k = 0; k < std::size(layouts); ++k) {
    const std::string &name = names.at(names.size() == 1 ? 0 : k);
    if (name == "mixed") {
      *layouts[k] = one_of(random, distinct_layouts);
      continue;
    }
    bool found = false;
    for (const Layout &layout : distinct_layouts)
      if (name == layout.name) *layouts[k] = layout, found = true;
    if (!found) throw std::runtime_error("layout=" + name + " is not known");
  }
}

// Series of x and then of y, or given costs.
void fill_data(Case &c, Random &random, const std::string &name, double scale) {
  const sdtw_problem &p = c.problem;
  const auto kinds = static_cast<int64_t>(Data::count);
  if (name == "normal") {
    fill(c, random, scale);
    return;
  }
  int64_t kind = 0;
  while (kind < kinds && name != data_names[kind]) ++kind;
  if (kind == kinds && name != "mixed") throw std::runtime_error("data=" + name + " is not known");
  Data data{};
  double size = scale;
  const auto next = [&] {
    data = static_cast<Data>(name == "mixed" ? random.integer(0, mixed_kinds - 1) : kind);
    size = name == "mixed" ? scale * std::pow(10.0, 3 * random.uniform() - 1.5) : scale;
  };
  const auto append = [](std::vector<double> &to, const std::vector<double> &more) {
    to.insert(to.end(), more.begin(), more.end());
  };
  for (int64_t b = 0; b < std::max(c.series_x(), c.fused() && c.has_y() ? c.series_y() : 0); ++b) {
    next();
    if (!c.fused()) {
      append(c.x, costs(random, data, p.n, p.m, size * size, p.gamma > 0 ? p.gamma : 1));
      continue;
    }
    const SeriesPair pair = series_pair(random, data, p.n, p.m, p.features, size);
    if (b < c.series_x()) append(c.x, pair.x);
    if (c.has_y() && b < c.series_y()) append(c.y, pair.y);
  }
}

void fit(sdtw_dtype dtype, std::vector<double> &values) {
  const double most = largest_of(dtype);
  for (double &v : values) v = std::isfinite(v) ? std::clamp(rounded(dtype, v), -most, most) : v;
}

void spoil(Case &c, Random &random, const std::string &how) {
  if (how == "nan") c.x[random.integer(0, static_cast<int64_t>(c.x.size()) - 1)] = NAN;
  if (how == "inf" || how == "infs")
    for (double &v : c.x)
      if (random.uniform() < 0.1) v = INFINITY;
  if (how == "infs" && !c.y.empty()) c.y[random.integer(0, static_cast<int64_t>(c.y.size()) - 1)] = INFINITY;
  if (how == "length") {
    if (c.x_len.empty()) c.x_len.assign(c.series_x(), c.problem.n);
    c.x_len[random.integer(0, c.series_x() - 1)] = one_of(random, {int64_t(-1), c.problem.n + 1});
  }
}

}  // namespace

Case problem(const std::string &line) {
  Words words(line);
  const auto metric = words.choice("metric", "sqeuclidean", metric_names);
  Case c = make_case(metric, 1, 1, 1, 1, 1);
  c.problem.dtype = words.choice("dtype", "f32", dtype_names);
  read_shape(words, c);
  read_rules(words, c);
  read_exec(words, c);
  const auto seed = static_cast<uint64_t>(words.number("seed", 1));
  read_layouts(words, c, Random(seed + 1));

  const std::string data = words.text("data", "noise"), lengths = words.text("lengths", ""),
                    grad = words.text("grad", "ones"), tangents = words.text("tangents", "none"),
                    spoilt = words.text("spoil", "none");
  const double scale = words.number("scale", 1);
  words.finish();
  Random random(seed);
  fill_data(c, random, data, scale);
  if (!lengths.empty()) {
    const double least = Words::to_number("lengths", lengths);
    if (!(least >= 0 && least <= static_cast<double>(std::min(c.problem.n, c.problem.m))))
      throw std::runtime_error("lengths=" + lengths + " is not between 0 and n and m");
    with_lengths(c, random, static_cast<int64_t>(least));
  }
  if (grad == "random") with_grad_value(c, random);
  const bool along_x = tangents.find('x') != std::string::npos || (tangents == "y" && !c.has_y());
  if (along_x) c.tangent_x = normal_values(random, static_cast<int64_t>(c.x.size()));
  if (tangents.find('y') != std::string::npos) c.tangent_y = normal_values(random, static_cast<int64_t>(c.y.size()));
  spoil(c, random, spoilt);
  for (std::vector<double> *values : {&c.x, &c.y, &c.tangent_x, &c.tangent_y}) fit(c.problem.dtype, *values);

  std::ostringstream text;
  text.precision(17);
  text << "data=" << data;
  if (scale != 1) text << " scale=" << scale;
  if (!lengths.empty()) text << " lengths=" << lengths;
  if (grad != "ones") text << " grad=" << grad;
  if (tangents != "none") text << " tangents=" << tangents;
  if (spoilt != "none") text << " spoil=" << spoilt;
  text << " seed=" << seed;
  c.data = text.str();
  return c;
}

}  // namespace test
