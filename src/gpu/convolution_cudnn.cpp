// Convolutions through cuDNN 9, opened when the first one runs.
//
// The engine is the first that its heuristic lists whose numbers are ours: sums in float32 of
// products within the window (no Winograd and no FFT, which spread NaN and infinities to
// neighbours), the same bits in every run, TF32 only where it is allowed. A function of the
// convolution alone, never of time.
#include "gpu/convolution.h"
#include "gpu/cudnn.h"

#include <iterator>
#include <memory>
#include <utility>
#include <vector>

#include "gpu/convolution_library.h"
#include "gpu/library.h"

namespace pyflame::gpu {
namespace {

constexpr int kMostEngines = 24;  // looked at

struct CudnnCalls {
#define X(NAME, ARGS) int(*NAME) ARGS = nullptr;
  PF_CUDNN_CALLS(X)
#undef X
  const char* (*GetErrorString)(int) = nullptr;
  size_t (*GetVersion)() = nullptr;
  template <class F>
  void each(F&& take) {
#define X(NAME, ARGS) take(NAME, "cudnn" #NAME);
    PF_CUDNN_CALLS(X)
#undef X
    take(GetErrorString, "cudnnGetErrorString");
    take(GetVersion, "cudnnGetVersion", false);
  }
};

const VendorLibrary<CudnnCalls>& cudnn() {
  static const VendorLibrary<CudnnCalls> l("cuDNN", "PYFLAME_CUDNN_LIBRARY", "libcudnn", {".so.9"});
  return l;
}

void must(int status, const char* call) {
  if (status != 0)
    throw Refused(std::string("cudnn") + call + " gave status " + std::to_string(status) + " (" +
                  cudnn().GetErrorString(status) + ")");
}

class Descriptor {
 public:
  explicit Descriptor(int type) {
    must(cudnn().BackendCreateDescriptor(type, &handle_), "BackendCreateDescriptor");
  }
  ~Descriptor() {
    if (handle_) cudnn().BackendDestroyDescriptor(handle_);
  }
  Descriptor(Descriptor&& d) noexcept : handle_(std::exchange(d.handle_, nullptr)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  void* get() const { return handle_; }
  void set(int name, int type, const void* values, int64_t count = 1) {
    must(cudnn().BackendSetAttribute(handle_, name, type, count, values), "BackendSetAttribute");
  }
  void set(int name, const Descriptor& d) { set(name, kDnnTypeDescriptor, &d.handle_); }
  void number(int name, int type, int value) { set(name, type, &value); }
  void number(int name, int64_t value) { set(name, kDnnTypeInt64, &value); }
  int64_t read(int name, int type, void* values, int64_t wanted = 1) const {
    int64_t count = 0;
    must(cudnn().BackendGetAttribute(handle_, name, type, wanted, &count, values),
         "BackendGetAttribute");
    return count;
  }
  void finish() { must(cudnn().BackendFinalize(handle_), "BackendFinalize"); }

 private:
  void* handle_ = nullptr;
};

struct Cudnn {
  static constexpr bool kAddsToBias = true;
  struct Prepared {
    std::vector<Descriptor> parts;  // what the plan stands on
    std::unique_ptr<Descriptor> plan;
    size_t workspace = 0;
  };

  Cudnn() { must(cudnn().Create(&handle_), "Create"); }

  void execute(const Prepared& r, const Convolution& c, void* workspace, hipStream stream) {
    Descriptor pack(kDnnVariantPack);
    const int64_t ids[] = {1, 2, 3};
    void* const pointers[] = {c.x.data, c.w.data, c.y.data};
    pack.set(kDnnPackIds, kDnnTypeInt64, ids, 3);
    pack.set(kDnnPackPointers, kDnnTypePointer, pointers, 3);
    pack.set(kDnnPackWorkspace, kDnnTypePointer, &workspace);
    pack.finish();
    must(cudnn().SetStream(handle_, stream), "SetStream");
    must(cudnn().BackendExecute(handle_, r.plan->get(), pack.get()), "BackendExecute");
  }

  void prepare(Prepared& r, const ConvolutionKey& key, const Convolution& c) {
    const bool wide = c.dtype == DType::Float64;
    const int type = wide                         ? kDnnDouble
                     : c.dtype == DType::Float16  ? kDnnHalf
                     : c.dtype == DType::BFloat16 ? kDnnBFloat16
                                                  : kDnnFloat;
    auto& parts = r.parts;
    parts.reserve(8);
    const auto part = [&](int kind) -> Descriptor& { return parts.emplace_back(kind); };
    const auto tensor = [&](int at, const Convolution::Operand& t) -> Descriptor& {
      Descriptor& d = part(kDnnTensor);
      d.number(kDnnTensorDataType, kDnnTypeDataType, type);
      d.set(kDnnTensorSizes, kDnnTypeInt64, t.size, c.space + 2);
      d.set(kDnnTensorStrides, kDnnTypeInt64, t.step, c.space + 2);
      d.number(kDnnTensorId, at + 1);
      d.number(kDnnTensorAlignment, key.align[at]);
      d.finish();
      return d;
    };
    const Descriptor &x = tensor(0, c.x), &w = tensor(1, c.w), &y = tensor(2, c.y);

    Descriptor& shape = part(kDnnConvolution);
    shape.number(kDnnConvolutionComputeType, kDnnTypeDataType, wide ? kDnnDouble : kDnnFloat);
    shape.number(kDnnConvolutionMode, kDnnTypeConvolutionMode, kDnnCrossCorrelation);
    shape.number(kDnnConvolutionSpace, c.space);
    shape.set(kDnnConvolutionStrides, kDnnTypeInt64, c.stride, c.space);
    shape.set(kDnnConvolutionDilations, kDnnTypeInt64, c.dilation, c.space);
    shape.set(kDnnConvolutionPrePaddings, kDnnTypeInt64, c.padding, c.space);
    shape.set(kDnnConvolutionPostPaddings, kDnnTypeInt64, c.padding, c.space);
    shape.finish();

    using Kind = Convolution::Kind;
    const bool forward = c.kind == Kind::Forward, filter = c.kind == Kind::Weight;
    Descriptor& op = part(forward ? kDnnForward : filter ? kDnnBackwardFilter : kDnnBackwardData);
    const int alpha = forward ? kDnnForwardAlpha : filter ? kDnnFilterAlpha : kDnnDataAlpha;
    const float one = 1, some = c.bias ? 1.0f : 0.0f;
    const double one_d = 1, some_d = c.bias ? 1 : 0;
    const int factor = wide ? kDnnTypeDouble : kDnnTypeFloat;
    op.set(alpha, factor, wide ? static_cast<const void*>(&one_d) : &one);
    op.set(alpha + 1, factor, wide ? static_cast<const void*>(&some_d) : &some);
    op.set(alpha + 2, shape);
    op.set(alpha + 3, w);
    op.set(alpha + 4, x);
    op.set(alpha + 5, y);
    op.finish();

    Descriptor& graph = part(kDnnGraph);
    graph.set(kDnnGraphHandle, kDnnTypeHandle, &handle_);
    graph.set(kDnnGraphOperations, op);
    graph.finish();

    std::string why = "cuDNN has no engine for it";
    int before = c.proposal;  // of good ones
    for (const int mode : {kDnnHeuristicA, kDnnHeuristicFallback}) {
      try {
        if (plan_of(r, graph, mode, c, before, why)) return;
      } catch (const Refused& e) {
        why = e.what();
      }
    }
    parts.clear();
    throw Refused(why);
  }

 private:
  bool plan_of(Prepared& r, const Descriptor& graph, int mode, const Convolution& c, int& before,
               std::string& why) {
    Descriptor heuristic(kDnnHeuristic);
    heuristic.set(kDnnHeuristicGraph, graph);
    heuristic.number(kDnnHeuristicMode, kDnnTypeHeuristicMode, mode);
    heuristic.finish();
    std::vector<Descriptor> configs;
    void* handles[kMostEngines];
    for (void*& h : handles) h = configs.emplace_back(kDnnEngineConfig).get();
    const int64_t count =
        heuristic.read(kDnnHeuristicResults, kDnnTypeDescriptor, handles, kMostEngines);
    for (size_t i = 0; i < configs.size() && static_cast<int64_t>(i) < count; ++i) {
      try {
        if (!good(configs[i], c)) continue;
        auto plan = std::make_unique<Descriptor>(kDnnPlan);
        plan->set(kDnnPlanHandle, kDnnTypeHandle, &handle_);
        plan->set(kDnnPlanConfig, configs[i]);
        plan->finish();
        int64_t workspace = 0;
        plan->read(kDnnPlanWorkspace, kDnnTypeInt64, &workspace);
        if (workspace > static_cast<int64_t>(kConvolutionWorkspace) || before-- > 0) continue;
        r.workspace = static_cast<size_t>(workspace);
        r.parts.push_back(std::move(configs[i]));
        r.plan = std::move(plan);
        return true;
      } catch (const Refused& e) {
        why = e.what();  // the next one, perhaps
      }
    }
    return false;
  }

  static bool good(const Descriptor& config, const Convolution& c) {
    Descriptor engine(kDnnEngine);
    void* handle = engine.get();
    config.read(kDnnConfigEngine, kDnnTypeDescriptor, &handle);
    // On tensor cores float32 is TF32, whether the engine says that it converts or not.
    const bool rounds = c.dtype != DType::Float32 || c.tf32;
    int notes[32] = {};
    const int64_t count =
        engine.read(kDnnEngineNotes, kDnnTypeNumericalNote, notes, std::size(notes));
    for (int64_t i = 0; i < count && i < static_cast<int64_t>(std::size(notes)); ++i) {
      const bool known = notes[i] == kDnnNoteStrictNan ||
                         (notes[i] == kDnnNoteTensorCore && rounds) ||
                         (notes[i] == kDnnNoteDownConvert && c.tf32);
      if (!known) return false;
    }
    return true;
  }

  void* handle_ = nullptr;
};

}  // namespace

bool convolution_library_usable() {
  return cudnn().usable;
}
const char* convolution_library() {
  return cudnn().text.c_str();
}
std::string convolution_library_version() {
  if (!cudnn().usable) return "none";
  return cudnn().GetVersion ? "cuDNN " + std::to_string(cudnn().GetVersion()) : "cuDNN";
}

bool library_convolution(const KernelArgs& args, const Convolution& c, std::string& why) {
  return convolution_by<Cudnn>(args, c, why);
}

}  // namespace pyflame::gpu
