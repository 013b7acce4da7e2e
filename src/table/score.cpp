#include "table/score.h"

#include <deque>
#include <mutex>

#include "core/lock.h"
#include "pyflame/error.h"

namespace pyflame::table {
namespace {

constexpr size_t kMost = 256;

struct Known {
  Mutex mutex;
  std::deque<ScoreFunction> all;
};
Known& known() {
  static auto* k = new Known;
  return *k;
}

Expr slope_of(const Expr& value) {
  Graph g;
  std::vector<int> inputs;
  inputs.reserve(static_cast<size_t>(value.num_inputs()));
  for (int i = 0; i < value.num_inputs(); ++i) inputs.push_back(g.input(i));
  const int slope = derivative(g, g.insert(value, inputs), 0);
  return g.extract(slope < 0 ? g.constant(0) : slope);
}

}  // namespace

int64_t define_score(const std::string& value, const std::vector<std::string>& at,
                     const Lookup& lookup, const char* op) {
  PF_CHECK(at.size() <= kScoreTables, ValueError, op, "got ", at.size(),
           " tables of a score; expected at most ", kScoreTables, "; join some");
  std::vector<std::string> inputs{"s", "b", "h", "i", "j"};
  ScoreFunction f;
  for (const std::string& text : at) f.at.push_back(parse(text, inputs, {}, lookup, op));
  for (size_t t = 0; t < at.size(); ++t) inputs.push_back("t" + std::to_string(t));
  f.value = parse(value, inputs, {}, lookup, op);
  PF_CHECK(!f.value.root().mask, ValueError, op, "got a condition as a score; expected a number; ",
           "write where(condition, 1, 0)");
  for (const Expr& e : f.at)
    PF_CHECK(!e.root().mask && !e.uses_input(0), ValueError, op,
             "got an index that is no number of b, h, i and j; expected one; index by positions");
  f.slope = slope_of(f.value);
  Known& k = known();
  std::lock_guard lock(k.mutex);
  for (size_t n = 0; n < k.all.size(); ++n)
    if (k.all[n] == f) return static_cast<int64_t>(n) + 1;
  if (k.all.size() == kMost) return 0;
  k.all.push_back(std::move(f));
  return static_cast<int64_t>(k.all.size());
}

const ScoreFunction& score_function(int64_t number) {
  Known& k = known();
  std::lock_guard lock(k.mutex);
  PF_CHECK(number > 0 && number <= static_cast<int64_t>(k.all.size()), ValueError, "attention",
           "got score function ", number, "; expected one that was defined");
  return k.all[static_cast<size_t>(number) - 1];
}

}  // namespace pyflame::table
