#include "gpu/attention_library.h"

#include <algorithm>
#include <sstream>
#include <vector>

#include "engine/trace.h"
#include "gpu/attention_operand.h"
#include "gpu/compile_only.h"
#include "gpu/host.h"
#include "gpu/product.h"
#include "gpu/tuning.h"

namespace pyflame::gpu {
namespace {

using Shape = AttentionShape;

ProductSource source() {
  static const ProductSource s = source_asked("PYFLAME_GPU_ATTENTION");
  return s;
}

class Job {
 public:
  Job(const KernelArgs& args, const pf_attention& a, DType t, bool backward)
      : args_(args), a_(a), dtype_(t) {
    Shape& s = work_.shape;
    s.dtype = static_cast<int32_t>(t);
    s.backward = backward;
    s.queries = a.queries, s.keys = a.keys, s.depth = a.depth, s.depth_v = a.depth_v;
    // Heads that share keys are the last batch dimension, in which k and v do not move.
    const int last = a.batch - 1;
    if (last >= 0 && a.size[last] > 1 &&
        (backward ? a.group > 1 : a.k.batch[last] == 0 && a.v.batch[last] == 0))
      group_ = last;
    of_keys_ = a;
    if (group_ >= 0) of_keys_.size[group_] = 1;
    for (int d = 0; d < a.batch; ++d)
      if (a.size[d] != 1 && d != group_) dims_.push_back(d);
    s.heads_k = dims_.empty() ? 1 : a.size[dims_.back()];
    s.heads = s.heads_k * (group_ < 0 ? 1 : a.size[group_]);
    s.batch = 1;
    for (size_t i = 0; i + 1 < dims_.size(); ++i) s.batch *= a.size[dims_[i]];
    s.causal = !a.causal ? 0 : a.high == 0 ? 1 : 2;
    work_.lse = a.lse;
    work_.scale = static_cast<float>(a.scale);
  }
  const Shape& shape() const { return work_.shape; }

  // A matter of dtype, shape and features alone: however operands lie, who runs is the same.
  // What is wrong with it, or empty.
  const char* unfit(int64_t mask, int64_t features) const {
    const Shape& s = work_.shape;
    if (itemsize(dtype_) != 2) return "it takes 16-bit floats";
    if (mask != 0 || (features & ~PF_GROUPS) != 0)
      return "it is asked for no masks, windows, slopes, soft caps, sequences and dropout";
    if (s.causal == 2 && (!a_.bottom_right || a_.high != s.keys - s.queries || a_.high < 0))
      return "it is asked for no triangle but from the first or up to the last query and key";
    if (s.depth % 8 != 0 || s.depth_v % 8 != 0 || std::max(s.depth, s.depth_v) > 256)
      return "it takes multiples of 8 columns, up to 256";
    if (s.queries == 1 || std::min({s.keys, s.depth, s.depth_v, s.batch, s.heads}) == 0)
      return "it is not asked for one query, or nothing";
    return "";
  }

  bool run(int proposal, std::string& why) {
    struct Operand {
      int which;
      AttentionOperand o;
      bool keys, result;
    };
    pf_attention a = a_;
    std::vector<Operand> all = {{Shape::kQ, {&a.q, a.queries, a.depth}, false, false},
                                {Shape::kK, {&a.k, a.keys, a.depth}, true, false},
                                {Shape::kV, {&a.v, a.keys, a.depth_v}, true, false},
                                {Shape::kOut, {&a.out, a.queries, a.depth_v}, false, true}};
    if (work_.shape.backward) {
      all.back().result = false;
      all.push_back({Shape::kDout, {&a.dout, a.queries, a.depth_v}, false, false});
      all.push_back({Shape::kDq, {&a.dq, a.queries, a.depth}, false, true});
      all.push_back({Shape::kDk, {&a.dk, a.keys, a.depth}, true, true});
      all.push_back({Shape::kDv, {&a.dv, a.keys, a.depth_v}, true, true});
    }
    work_.shape.proposal = proposal;
    std::vector<std::pair<const Operand*, pf_matrix>> apart;
    for (const Operand& x : all) {
      const pf_attention& sizes = x.keys ? of_keys_ : a_;
      if (!lies_well(sizes, x.o) || !steps(x.o, x.keys, work_.shape.step[x.which])) {
        if (x.result) {
          apart.emplace_back(&x, *x.o.x);
          lay_well(args_, sizes, dtype_, x.o);
        } else {
          copy_well(args_, sizes, dtype_, x.o);
        }
        steps(x.o, x.keys, work_.shape.step[x.which]);
      }
      work_.data[x.which] = x.o.x->data;
    }
    if (!library_attention(args_, work_, why)) return false;
    for (auto& [x, to] : apart)
      copy_result(args_, x->keys ? of_keys_ : a_, dtype_, {&to, x->o.rows, x->o.cols}, *x->o.x);
    if (!work_.shape.backward && a_.logs)
      args_.copy(
          a_.logs, a_.lse,
          static_cast<size_t>(work_.shape.batch * work_.shape.heads * a_.queries) * sizeof(float));
    return true;
  }

 private:
  // Strides of [batch, heads, rows]; false where there are none.
  bool steps(const AttentionOperand& o, bool keys, int64_t (&step)[3]) const {
    const pf_matrix& x = *o.x;
    const int64_t none = ceil_div(o.cols, 8) * 8;  // of a dimension of one place
    step[2] = o.rows == 1 ? none : x.row;
    if (step[2] == 0) return false;
    const bool grouped = group_ >= 0 && !keys;
    const int64_t wide = o.rows * step[2];
    step[1] = grouped ? x.batch[group_] : dims_.empty() ? wide : x.batch[dims_.back()];
    if (step[1] == 0) return false;
    if (grouped && !dims_.empty() && x.batch[dims_.back()] != a_.size[group_] * step[1])
      return false;
    step[0] = std::max(wide, (keys ? work_.shape.heads_k : work_.shape.heads) * step[1]);
    for (size_t i = dims_.size(); i-- > 1;) {
      const int64_t here = x.batch[dims_[i - 1]];
      if (i + 1 == dims_.size())
        step[0] = here;
      else if (here != x.batch[dims_[i]] * a_.size[dims_[i]])
        return false;
      if (here == 0) return false;
    }
    return true;
  }

  const KernelArgs& args_;
  const pf_attention& a_;
  pf_attention of_keys_;
  DType dtype_;
  int group_ = -1;
  std::vector<int> dims_;  // batch dimensions but that; the last of them has the heads
  AttentionWork work_{};
};

// What decides over the speed, as text.
std::string description(const Shape& s) {
  std::ostringstream text;
  text << (s.backward ? "attention_gradients " : "attention ") << name(static_cast<DType>(s.dtype))
       << " " << s.batch << "x" << s.heads;
  if (s.heads_k != s.heads) text << " of " << s.heads_k;
  text << " " << s.queries << "x" << s.keys << " " << s.depth;
  if (s.depth_v != s.depth) text << "," << s.depth_v;
  if (s.causal) text << (s.causal == 1 ? " causal" : " causal to the last");
  return text.str();
}

// As somebody measured, or measured now; false when nobody did.
bool by_choice(const KernelArgs& args, Job& job, const std::function<void()>& own, bool& ours) {
  const std::string what = description(job.shape()), library = attention_library_version();
  const auto run = [&](Choice c) {
    const ScratchScope mine;  // each gives back what it took
    std::string why;
    if (!c.own) return job.run(c.index, why);
    own();
    return true;
  };
  Choice choice;
  if (find_choice(args, library, what, choice)) return ours = choice.own, run(choice);
  if (!measuring()) return false;
  std::vector<Choice> candidates;
  const int proposals = exhaustive() ? kMostProposals : 4;
  candidates.reserve(kMostProposals + 1);
  for (int i = 0; i < proposals; ++i) candidates.push_back({false, i});
  if (source() == ProductSource::Auto) candidates.push_back({true, -1});
  ours = measure(args, library, what, candidates, run).own;
  return true;
}

// Where cuDNN 9.19 is quicker than our own kernels, as measured on an H200 and an H100
// (docs/performance.md): up to so many columns, for fewer keys than that.
struct Quicker {
  int64_t columns, keys;
};
constexpr int64_t kAny = int64_t{1} << 60;
constexpr Quicker kForward[] = {{64, kAny}, {128, 4096}, {256, kAny}}, kGradients[] = {{256, kAny}};
constexpr double kLeastWork = 1.5e9;  // below, the host's part of a call decides: ours is shorter
constexpr int64_t kFewSharedKeys = 1024;  // gradients that are summed over heads

bool quicker(const Traits& t, const Shape& s) {
  if (t.amd || t.architecture != "sm_90") return false;
  const double work = (s.causal ? 1.0 : 2.0) * static_cast<double>(s.batch * s.heads) *
                      static_cast<double>(s.queries * s.keys) *
                      static_cast<double>(s.depth + s.depth_v);
  if (work < kLeastWork) return false;
  if (s.backward && s.heads_k != s.heads && s.keys < kFewSharedKeys) return false;
  const auto knows = [&](const auto& table) {
    for (const Quicker& row : table)
      if (std::max(s.depth, s.depth_v) <= row.columns) return s.keys < row.keys;
    return false;
  };
  return s.backward ? knows(kGradients) : knows(kForward);
}

}  // namespace

bool attention_by_library(const KernelArgs& args, const pf_attention& a, DType t, int64_t mask,
                          int64_t features, bool backward, const AttentionWish& wish,
                          const std::function<void()>& own) {
  if (wish.own || source() == ProductSource::Own || !compile_only().empty()) return false;
  if (backward && wish.repeats) return false;
  Job job(args, a, t, backward);
  const bool asked = wish.library || source() == ProductSource::Library;
  std::string why = job.unfit(mask, features);
  const auto served = [&] {
    static const std::string by = attention_library_version();
    return engine::note_served(args.op, by.c_str()), true;
  };
  if (why.empty() && attention_library_usable()) {
    if (bool ours = false; choices_matter() && by_choice(args, job, own, ours))
      return ours || served();
    if (!asked && !quicker(args.traits(), job.shape())) return false;
    if (job.run(0, why)) return served();
  } else if (!asked) {
    return false;
  } else if (why.empty()) {
    why = attention_library();
  }
  note_own(args.op, "attention runs by our own kernels: " + why, "PYFLAME_GPU_ATTENTION");
  return false;
}

}  // namespace pyflame::gpu
