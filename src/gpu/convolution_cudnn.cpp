// Convolutions through cuDNN 9, opened when the first one runs.
//
// The engine is the first that its heuristic lists whose numbers are ours: sums in float32 of
// products within the window (no Winograd and no FFT, which spread NaN and infinities to
// neighbours), the same bits in every run, TF32 only where it is allowed. A function of the
// convolution alone, never of time.
#include "gpu/convolution.h"

#include <algorithm>
#include <vector>

#include "gpu/cudnn_graph.h"
#include "gpu/library_work.h"
#include "gpu/product.h"

namespace pyflame::gpu {
namespace {

struct Cudnn {
  using Work = Convolution;
  using Key = ConvolutionKey;
  using Hash = ConvolutionHash;
  struct Prepared : CudnnPlan {
    bool rounds = false;  // float32, on tensor cores
  };

  // The convolution is added to it.
  static void before(const KernelArgs& args, const Convolution& c) {
    if (c.bias) lay_bias(args, c);
  }
  static void tell(const KernelArgs& args, const Convolution& c, const Prepared& r) {
    note_float32(args, c.dtype, r.rounds, {"cuDNN, in float32", "cuDNN, in TF32"});
  }

  Cudnn() { cudnn_must(cudnn().Create(&handle_), "Create"); }

  void execute(const Prepared& r, const Convolution& c, void* workspace, hipStream stream) {
    run_plan(r, handle_, {1, 2, 3}, {c.x.data, c.w.data, c.y.data}, workspace, stream);
  }

  void prepare(Prepared& r, const ConvolutionKey& key, const Convolution& c) {
    const bool wide = c.dtype == DType::Float64;
    const int type = wide                         ? kDnnDouble
                     : c.dtype == DType::Float16  ? kDnnHalf
                     : c.dtype == DType::BFloat16 ? kDnnBFloat16
                                                  : kDnnFloat;
    auto& parts = r.parts;
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

    find_plan(r, handle_, make_graph(r, handle_, {op.get()}),
              {kConvolutionWorkspace, c.proposal, [&](const std::vector<int>& notes) {
                 r.rounds = std::ranges::any_of(notes, [](int note) {
                   return note == kDnnNoteTensorCore || note == kDnnNoteDownConvert;
                 });
                 return good(notes, c);
               }});
  }

 private:
  static bool good(const std::vector<int>& notes, const Convolution& c) {
    // On tensor cores float32 is TF32, whether the engine says that it converts or not.
    const bool rounds = c.dtype != DType::Float32 || c.tf32;
    return std::all_of(notes.begin(), notes.end(), [&](int note) {
      return note == kDnnNoteStrictNan || (note == kDnnNoteTensorCore && rounds) ||
             (note == kDnnNoteDownConvert && c.tf32);
    });
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
  return cudnn_version();
}

bool library_convolution(const KernelArgs& args, const Convolution& c, std::string& why) {
  return work_by<Cudnn>(args, c, why);
}

}  // namespace pyflame::gpu
