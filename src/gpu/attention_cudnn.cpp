// Attention through cuDNN 9, opened when the first one runs. The engine is the first that its
// heuristic lists: a function of the shape alone, never of time. The forward pass has the same bits
// in every run; gradients do not, for blocks add to those of queries as they come.
#include <cstring>
#include <limits>

#include "core/hash.h"
#include "gpu/attention_graph.h"
#include "gpu/attention_library.h"
#include "gpu/library_work.h"

namespace pyflame::gpu {
namespace {

// What older ones of cuDNN 9 do otherwise: sums of queries' gradients must be cleared for them;
// they need lengths of keys that are no multiples of 128 as tensors of the device; two have faults.
constexpr size_t kOldest = 90600, kAllLengths = 91501, kFaulty = 91000, kMended = 91002;
constexpr size_t kMostWorkspace = size_t{1} << 30;  // beside float32 sums of the queries' gradients

struct Engine {
  using Work = AttentionWork;
  struct Key : AttentionShape {
    explicit Key(const Work& w) : AttentionShape(w.shape) {}
    friend bool operator==(const Key& a, const Key& b) { return !std::memcmp(&a, &b, sizeof a); }
  };
  struct Hash {
    size_t operator()(const Key& k) const { return hash_bytes(&k, sizeof k); }
  };
  struct Prepared : AttentionGraph {
    size_t workspace = 0, sums_at = 0, dq_sums_at = 0;
  };
  static void before(const KernelArgs&, const Work&) {}

  Engine() { cudnn_must(cudnn().Create(&handle_), "Create"); }

  void prepare(Prepared& r, const Key& key, const Work&) {
    const size_t version = cudnn().GetVersion ? cudnn().GetVersion() : 0;
    if (version < kOldest || (version >= kFaulty && version < kMended))
      throw Refused(cudnn_version() + " is too old for it: 9.6 and newer are asked, but 9.10.0");
    if (version < kAllLengths && key.backward && key.keys % 128 != 0)
      throw Refused(cudnn_version() + " is too old for gradients of " + std::to_string(key.keys) +
                    " keys: before 9.16, multiples of 128 are asked");
    make_attention_graph(r, handle_, key, kMostWorkspace);
    const auto place = [&](size_t bytes) {
      const size_t at = r.workspace;
      r.workspace = (at + bytes + 255) / 256 * 256;
      return at;
    };
    place(r.plan.workspace);
    r.sums_at = place(r.sums), r.dq_sums_at = place(r.dq_sums);
  }

  void execute(const Prepared& r, const Work& w, void* workspace, hipStream stream) {
    using Id = AttentionGraph::Id;
    auto* memory = static_cast<char*>(workspace);
    float scale = w.scale, low = -std::numeric_limits<float>::infinity(), one = 1;
    auto keys = static_cast<int32_t>(w.shape.keys), queries = static_cast<int32_t>(w.shape.queries);
    std::vector<void*> pointers;
    for (const int64_t id : r.ids) {
      void* p = nullptr;
      switch (id) {
        case Id::kStats:
          p = w.lse;
          break;
        case Id::kSums:
          p = memory + r.sums_at;
          break;
        case Id::kDqSums:
          p = memory + r.dq_sums_at;
          break;
        case Id::kScale:
          p = &scale;
          break;
        case Id::kLow:
          p = &low;
          break;
        case Id::kOne:
          p = &one;
          break;
        case Id::kKeys:
          p = &keys;
          break;
        case Id::kQueries:
          p = &queries;
          break;
        default:
          p = w.data[id - Id::kOperand];
      }
      pointers.push_back(p);
    }
    run_plan(r.plan, handle_, r.ids, pointers, r.plan.workspace ? workspace : nullptr, stream);
  }

 private:
  void* handle_ = nullptr;
};

}  // namespace

bool attention_library_usable() {
  return cudnn().usable;
}
const char* attention_library() {
  return cudnn().text.c_str();
}
std::string attention_library_version() {
  return cudnn_version();
}

bool library_attention(const KernelArgs& args, const AttentionWork& w, std::string& why) {
  return work_by<Engine>(args, w, why);
}

}  // namespace pyflame::gpu
