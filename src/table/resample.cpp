#include "table/resample.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>

namespace pyflame::table {
namespace {

// Elements of one output as they come, in any order and some of them twice.
class Row {
 public:
  void add(int64_t at, double w) {
    if (w == 0) return;
    if (weights_.empty()) first_ = at;
    if (at < first_) {
      weights_.insert(weights_.begin(), static_cast<size_t>(first_ - at), 0.0);
      first_ = at;
    }
    const auto place = static_cast<size_t>(at - first_);
    if (place >= weights_.size()) weights_.resize(place + 1, 0.0);
    weights_[place] += w;
  }
  // Without zeros at its ends; what has none left stays where the row before it began.
  void settle(int64_t before) {
    while (!weights_.empty() && weights_.back() == 0) weights_.pop_back();
    size_t zeros = 0;
    while (zeros < weights_.size() && weights_[zeros] == 0) ++zeros;
    weights_.erase(weights_.begin(), weights_.begin() + static_cast<ptrdiff_t>(zeros));
    first_ = weights_.empty() ? before : first_ + static_cast<int64_t>(zeros);
  }
  int64_t first() const { return first_; }
  const std::vector<double>& weights() const { return weights_; }

 private:
  int64_t first_ = 0;
  std::vector<double> weights_;
};

Taps joined(int64_t in, std::vector<Row>& rows) {
  Taps t;
  t.in = in;
  t.out = static_cast<int64_t>(rows.size());
  int64_t before = 0;
  size_t most = 1;
  for (Row& r : rows) {
    r.settle(before);
    before = r.first();
    most = std::max(most, r.weights().size());
  }
  t.most = static_cast<int64_t>(most);
  t.weight.assign(rows.size() * most, 0.0);
  for (size_t i = 0; i < rows.size(); ++i) {
    t.start.push_back(static_cast<int32_t>(rows[i].first()));
    t.count.push_back(static_cast<int32_t>(rows[i].weights().size()));
    std::ranges::copy(rows[i].weights(), t.weight.begin() + static_cast<ptrdiff_t>(i * most));
  }
  return t;
}

// The cubic through its neighbours' values, whose slope is `a` at a distance of 1.
double cubic(double x, double a) {
  x = std::abs(x);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return (((x - 5) * x + 8) * x - 4) * a;
  return 0;
}
double triangle(double x) {
  return std::max(0.0, 1 - std::abs(x));
}
double sinc(double x) {
  x *= std::numbers::pi;
  return x == 0 ? 1 : std::sin(x) / x;
}
double lanczos(double x) {  // of three lobes
  return std::abs(x) < 3 ? sinc(x) * sinc(x / 3) : 0;
}

int64_t nearest(double place, int64_t in) {
  return std::clamp<int64_t>(static_cast<int64_t>(std::floor(place)), 0, in - 1);
}

void fill(Row& row, Rule rule, int64_t i, int64_t in, int64_t out, double scale, bool align,
          bool single) {
  const auto at = static_cast<double>(i);
  const int64_t last = in - 1;
  if (rule == Rule::Nearest || rule == Rule::NearestExact) {
    // Rounded where PyTorch rounds: places at the border of two elements are not rare.
    const auto rough = static_cast<float>(scale), place = static_cast<float>(i);
    float at_last = single ? place * rough : static_cast<float>(at * scale);
    if (rule == Rule::NearestExact)
      at_last = single ? std::max(std::fma(place + 0.5F, rough, -0.5F), 0.0F) + 0.5F
                       : static_cast<float>(std::max((at + 0.5) * scale - 0.5, 0.0) + 0.5);
    return row.add(nearest(at_last, in), 1);
  }
  if (rule == Rule::Area) {
    const int64_t begin = i / out * in + i % out * in / out;
    const int64_t end = (i + 1) / out * in + ((i + 1) % out * in + out - 1) / out;
    for (int64_t k = begin; k < end; ++k) row.add(k, 1.0 / static_cast<double>(end - begin));
    return;
  }
  if (rule == Rule::LinearWide || rule == Rule::CubicWide || rule == Rule::LanczosWide) {
    const int lobes = rule == Rule::LinearWide ? 1 : rule == Rule::CubicWide ? 2 : 3;
    const double wide = std::max(scale, 1.0), reach = lobes * wide;
    const double centre = scale * (at + 0.5);
    const auto all = static_cast<double>(in);
    const auto begin = static_cast<int64_t>(std::clamp(centre - reach + 0.5, 0.0, all));
    const auto end = static_cast<int64_t>(std::clamp(centre + reach + 0.5, 0.0, all));
    const auto of = [&](int64_t k) {
      const double x = (static_cast<double>(k) - centre + 0.5) / wide;
      return lobes == 1 ? triangle(x) : lobes == 2 ? cubic(x, -0.5) : lanczos(x);
    };
    double sum = 0;
    for (int64_t k = begin; k < end; ++k) sum += of(k);
    for (int64_t k = begin; k < end; ++k) row.add(k, sum != 0 ? of(k) / sum : of(k));
    return;
  }
  double place = align ? at * scale : (at + 0.5) * scale - 0.5;
  if (rule == Rule::Linear) {
    if (in == out) return row.add(i, 1);
    place = std::max(place, 0.0);
    const int64_t low = nearest(place, in);
    const double t = std::clamp(place - static_cast<double>(low), 0.0, 1.0);
    row.add(low, 1 - t);
    row.add(std::min(low + 1, last), t);
    return;
  }
  const double low = std::floor(place), t = std::clamp(place - low, 0.0, 1.0);
  for (int k = -1; k <= 2; ++k) row.add(nearest(low + k, in), cubic(t - k, -0.75));
}

}  // namespace

bool Taps::same() const {
  if (in != out) return false;
  for (int64_t i = 0; i < out; ++i)
    if (start[static_cast<size_t>(i)] != i || !plain(i)) return false;
  return true;
}
bool Taps::repeats(int64_t i) const {
  if (i == 0) return false;
  const auto at = static_cast<size_t>(i), k = static_cast<size_t>(most);
  return start[at] == start[at - 1] && count[at] == count[at - 1] &&
         std::equal(&weight[at * k], &weight[at * k] + k, &weight[(at - 1) * k]);
}

double scale_of(int64_t in, int64_t out, bool align, double factor) {
  const auto from = static_cast<double>(in), to = static_cast<double>(out);
  if (align) return out > 1 ? (from - 1) / (to - 1) : 0;
  return factor > 0 ? 1 / factor : from / to;
}

Taps taps_of(Rule rule, int64_t in, int64_t out, double scale, bool align, bool single) {
  std::vector<Row> rows(static_cast<size_t>(out));
  for (int64_t i = 0; i < out; ++i)
    fill(rows[static_cast<size_t>(i)], rule, i, in, out, scale, align, single);
  return joined(in, rows);
}

Taps transposed(const Taps& t) {
  std::vector<Row> rows(static_cast<size_t>(t.in));
  for (int64_t i = 0; i < t.out; ++i) {
    const auto at = static_cast<size_t>(i);
    for (int64_t k = 0; k < t.count[at]; ++k)
      rows[static_cast<size_t>(t.start[at] + k)].add(
          i, t.weight[at * static_cast<size_t>(t.most) + static_cast<size_t>(k)]);
  }
  return joined(t.out, rows);
}

}  // namespace pyflame::table
