// Convolutions through MIOpen's immediate mode, opened when the first one runs: nothing is
// measured.
//
// The solution is the first of those that it lists which is neither Winograd nor FFT (they spread
// NaN and infinities to neighbours), of the ones that give the same bits in every run.
#include "gpu/convolution.h"
#include "gpu/miopen.h"

#include <climits>

#include "gpu/library.h"
#include "gpu/library_work.h"
#include "gpu/product.h"

namespace pyflame::gpu {
namespace {

constexpr size_t kMostSolutions = 32;  // looked at

struct MiopenCalls {
  PF_MIOPEN_CALLS(PF_CALL_POINTER)
  const char* (*GetErrorString)(int) = nullptr;
  int (*GetVersion)(size_t*, size_t*, size_t*) = nullptr;
  template <class F>
  void each(F&& take) {
    const std::string prefix = "miopen";
    PF_MIOPEN_CALLS(PF_CALL_TAKE)
    take(GetErrorString, "miopenGetErrorString");
    take(GetVersion, "miopenGetVersion", false);
  }
};

const VendorLibrary<MiopenCalls>& miopen() {
  static const VendorLibrary<MiopenCalls> l("MIOpen", "PYFLAME_MIOPEN_LIBRARY", "libMIOpen",
                                            {".so.1"});
  return l;
}

void must(int status, const char* call) {
  if (status != 0)
    throw Refused(std::string("miopen") + call + " gave status " + std::to_string(status) + " (" +
                  miopen().GetErrorString(status) + ")");
}

struct Numbers {  // as 32 bits
  int at[5];
  Numbers(const int64_t* from, int count) {
    for (int i = 0; i < count; ++i) {
      if (from[i] > INT_MAX) throw Refused("MIOpen counts in 32 bits");
      at[i] = static_cast<int>(from[i]);
    }
  }
};

struct Tensor {
  void* handle = nullptr;
  Tensor() = default;
  Tensor(const Tensor&) = delete;
  Tensor& operator=(const Tensor&) = delete;
  ~Tensor() {
    if (handle) miopen().DestroyTensorDescriptor(handle);
  }
  void set(int type, const int64_t* sizes, const int64_t* steps, int ndim) {
    must(miopen().CreateTensorDescriptor(&handle), "CreateTensorDescriptor");
    const Numbers size(sizes, ndim), step(steps, ndim);
    must(miopen().SetTensorDescriptor(handle, type, ndim, size.at, step.at), "SetTensorDescriptor");
  }
};

struct Miopen {
  using Work = Convolution;
  using Key = ConvolutionKey;
  using Hash = ConvolutionHash;
  static void before(const KernelArgs& args, const Convolution& c) {  // the bias comes behind
    note_float32(args, c.dtype, false, {"MIOpen, in float32", nullptr});
  }

  struct Prepared {
    Tensor x, w, y, bias;
    void* shape = nullptr;
    uint64_t solution = 0;
    size_t workspace = 0;
    Prepared() = default;
    Prepared(const Prepared&) = delete;
    Prepared& operator=(const Prepared&) = delete;
    ~Prepared() {
      if (shape) miopen().DestroyConvolutionDescriptor(shape);
    }
  };
  // The calls and operands of a kind.
  struct Way {
    decltype(MiopenCalls::ConvolutionForwardGetSolution) get;
    decltype(MiopenCalls::ConvolutionForwardCompileSolution) compile;
    decltype(MiopenCalls::ConvolutionForwardImmediate) run;
    void *a, *b, *c;
    void *a_data, *b_data, *c_data;
  };
  static Way way(const Prepared& p, const Convolution& c) {
    const auto& l = miopen();
    switch (c.kind) {
      case Convolution::Kind::Forward:
        return {l.ConvolutionForwardGetSolution,
                l.ConvolutionForwardCompileSolution,
                l.ConvolutionForwardImmediate,
                p.w.handle,
                p.x.handle,
                p.y.handle,
                c.w.data,
                c.x.data,
                c.y.data};
      case Convolution::Kind::Input:
        return {l.ConvolutionBackwardDataGetSolution,
                l.ConvolutionBackwardDataCompileSolution,
                l.ConvolutionBackwardDataImmediate,
                p.y.handle,
                p.w.handle,
                p.x.handle,
                c.y.data,
                c.w.data,
                c.x.data};
      default:
        return {l.ConvolutionBackwardWeightsGetSolution,
                l.ConvolutionBackwardWeightsCompileSolution,
                l.ConvolutionBackwardWeightsImmediate,
                p.y.handle,
                p.x.handle,
                p.w.handle,
                c.y.data,
                c.x.data,
                c.w.data};
    }
  }

  Miopen() { must(miopen().Create(&handle_), "Create"); }

  void prepare(Prepared& p, const ConvolutionKey&, const Convolution& c) {
    const auto& l = miopen();
    if (c.dtype == DType::Float64) throw Refused("MIOpen does not do it in float64 everywhere");
    const int type = c.dtype == DType::Float32   ? kMioFloat
                     : c.dtype == DType::Float16 ? kMioHalf
                                                 : kMioBFloat16;
    const int ndim = c.space + 2;
    p.x.set(type, c.x.size, c.x.step, ndim);
    p.w.set(type, c.w.size, c.w.step, ndim);
    p.y.set(type, c.y.size, c.y.step, ndim);
    if (c.bias) {
      const int64_t channels = c.y.size[1];
      const int64_t size[] = {1, channels, 1, 1, 1}, step[] = {channels, 1, 1, 1, 1};
      p.bias.set(type, size, step, ndim);
    }
    must(l.CreateConvolutionDescriptor(&p.shape), "CreateConvolutionDescriptor");
    const int64_t groups[] = {c.groups};
    const Numbers padding(c.padding, c.space), stride(c.stride, c.space),
        dilation(c.dilation, c.space), group(groups, 1);
    must(l.InitConvolutionNdDescriptor(p.shape, c.space, padding.at, stride.at, dilation.at,
                                       kMioConvolution),
         "InitConvolutionNdDescriptor");
    must(l.SetConvolutionGroupCount(p.shape, group.at[0]), "SetConvolutionGroupCount");
    must(l.SetConvolutionAttribute(p.shape, kMioDeterministic, 1), "SetConvolutionAttribute");
    const Way w = way(p, c);
    MiopenSolution found[kMostSolutions];
    size_t count = 0;
    must(w.get(handle_, w.a, w.b, p.shape, w.c, kMostSolutions, &count, found), "GetSolution");
    int before = c.proposal;  // of good ones
    for (size_t i = 0; i < count && i < kMostSolutions; ++i) {
      const MiopenSolution& s = found[i];
      if (s.algorithm == kMioFft || s.algorithm == kMioWinograd ||
          s.workspace > kConvolutionWorkspace || before-- > 0)
        continue;
      must(w.compile(handle_, w.a, w.b, p.shape, w.c, s.id), "CompileSolution");
      p.solution = s.id, p.workspace = s.workspace;
      return;
    }
    throw Refused("MIOpen has no solution for it");
  }

  void execute(const Prepared& p, const Convolution& c, void* workspace, hipStream stream) {
    const auto& l = miopen();
    must(l.SetStream(handle_, stream), "SetStream");
    const Way w = way(p, c);
    must(w.run(handle_, w.a, w.a_data, w.b, w.b_data, p.shape, w.c, w.c_data, workspace,
               p.workspace, p.solution),
         "ConvolutionImmediate");
    if (!c.bias) return;
    const float one = 1, zero = 0;
    must(l.OpTensor(handle_, kMioAdd, &one, p.y.handle, c.y.data, &one, p.bias.handle, c.bias,
                    &zero, p.y.handle, c.y.data),
         "OpTensor");
  }

 private:
  void* handle_ = nullptr;
};

}  // namespace

bool convolution_library_usable() {
  return miopen().usable;
}
const char* convolution_library() {
  return miopen().text.c_str();
}
std::string convolution_library_version() {
  if (!miopen().usable) return "none";
  size_t major = 0, minor = 0, patch = 0;
  if (!miopen().GetVersion || miopen().GetVersion(&major, &minor, &patch) != 0) return "MIOpen";
  return "MIOpen " + std::to_string(major) + "." + std::to_string(minor) + "." +
         std::to_string(patch);
}

bool library_convolution(const KernelArgs& args, const Convolution& c, std::string& why) {
  return work_by<Miopen>(args, c, why);
}

}  // namespace pyflame::gpu
