#include "engine/capture_order.h"

#include <algorithm>

#include "pyflame/dtype.h"

namespace pyflame::engine {
namespace {

struct Range {
  uintptr_t low, high;
  bool writes;
  int32_t launch;

  bool meets(const Range& r) const { return (writes || r.writes) && low < r.high && r.low < high; }
};

class Ranges {
 public:
  explicit Ranges(std::vector<Range>& to, int32_t launch) : to_(to), launch_(launch) {}

  // The bytes that a tensor of these elements can reach.
  void add(const void* data, int ndim, const int64_t* shape, const int64_t* strides, size_t item,
           bool writes) {
    if (!data || data == PF_NO_MEMORY) return;
    int64_t low = 0, high = 0;
    for (int d = 0; d < ndim; ++d) {
      if (shape[d] == 0) return;
      const int64_t reach = (shape[d] - 1) * strides[d];
      (reach < 0 ? low : high) += reach;
    }
    const auto at = reinterpret_cast<uintptr_t>(data);
    const auto size = static_cast<int64_t>(item);
    to_.push_back({at + static_cast<uintptr_t>(low * size),
                   at + static_cast<uintptr_t>((high + 1) * size), writes, launch_});
  }
  void add(const CapturedProgram& p) {
    if (!p.program) return;
    const ProgramKey& key = p.program->key;
    const auto operand = [&](const pf_operand& o, DType t, bool writes) {
      if (o.strides)
        return add(o.data, p.launch.ndim, p.launch.shape, o.strides, itemsize(t), writes);
      const int64_t one = 1;
      add(o.data, 1, &p.launch.numel, &one, itemsize(t), writes);
    };
    for (size_t j = 0; j < p.in.size(); ++j)
      operand(p.in[j], static_cast<DType>(key.input_dtypes[j]), false);
    for (int n = 0; n < key.nnodes; ++n)
      if (const int8_t o = key.nodes[n].store; o >= 0)
        operand(p.out[static_cast<size_t>(o)], static_cast<DType>(key.nodes[n].dtype), true);
  }
  void add(const CapturedLaunch& l) {
    if (l.fate != CapturedLaunch::Fate::Runs) return;  // or it has run before all
    add(l.before);
    add(l.after);
    for (size_t i = 0; i < l.tensors.size(); ++i) {
      const pf_tensor& t = l.tensors[i];
      add(t.data, t.ndim, t.shape, t.strides, itemsize(static_cast<DType>(t.dtype)),
          static_cast<int>(i) < l.outputs);
    }
    const auto bytes = static_cast<int64_t>(l.bytes.size()), one = int64_t{1};
    if (bytes) add(l.to, 1, &bytes, &one, 1, true);
  }

 private:
  std::vector<Range>& to_;
  int32_t launch_;
};

// Launches that one runs behind, whether at once or not.
class Behind {
 public:
  explicit Behind(size_t n) : words_((n + 63) / 64) {}
  bool has(int32_t i) const { return words_[static_cast<size_t>(i) / 64] >> (i % 64) & 1; }
  void add(int32_t i) { words_[static_cast<size_t>(i) / 64] |= uint64_t{1} << (i % 64); }
  void add(const Behind& other) {
    for (size_t w = 0; w < words_.size(); ++w) words_[w] |= other.words_[w];
  }

 private:
  std::vector<uint64_t> words_;
};

}  // namespace

std::vector<std::vector<int32_t>> order_of(
    std::span<const std::unique_ptr<CapturedLaunch>> launches) {
  const size_t n = launches.size();
  std::vector<std::vector<int32_t>> order(n);
  std::vector<Behind> behind(n, Behind(n));
  std::vector<Range> before, now;
  for (size_t i = 0; i < n; ++i) {
    now.clear();
    Ranges(now, static_cast<int32_t>(i)).add(*launches[i]);
    std::vector<int32_t> meets;
    for (const Range& r : now)
      for (const Range& earlier : before)
        if (r.meets(earlier)) meets.push_back(earlier.launch);
    std::sort(meets.begin(), meets.end(), std::greater<>());
    meets.erase(std::unique(meets.begin(), meets.end()), meets.end());
    for (int32_t j : meets) {
      if (behind[i].has(j)) continue;
      behind[i].add(j);
      behind[i].add(behind[static_cast<size_t>(j)]);
      order[i].push_back(j);
    }
    std::reverse(order[i].begin(), order[i].end());
    // Behind what writes all of it, nobody has to look at what it was.
    std::erase_if(before, [&](const Range& earlier) {
      return std::any_of(now.begin(), now.end(), [&](const Range& r) {
        return r.writes && r.low <= earlier.low && earlier.high <= r.high;
      });
    });
    before.insert(before.end(), now.begin(), now.end());
  }
  return order;
}

}  // namespace pyflame::engine
