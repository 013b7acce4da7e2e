// A stand-in for cuDNN's backend API: plain loops in double. For a convolution mode A lists four
// engines, of which a caller should refuse two (Winograd, different bits in every run: what they
// made would be wrong), then one that rounds to TF32 and one that takes a workspace; the fallback
// list has one. For a graph of more operations it lists one whose bits differ in every run, which
// gradients of attention may take, and the one with a workspace.
#include <cstdlib>
#include <map>
#include <memory>
#include <vector>

#include "convolution.h"
#include "cudnn_graph.h"

namespace {

enum : int { kSuccess = 0, kBad = 2000, kInternal = 4000, kUnsupported = 3000 };
enum : int { kForward = 10, kFilter = 11, kData = 12 };
constexpr int64_t kBytes = 4096;
constexpr int kWrong = 0, kLoose = 1, kTf32 = 2, kFallback = 4;  // and kGood

Operand operand(const Descriptor& d) {
  Operand o;
  const int type = *d.at<int>(901), space = static_cast<int>(d.values.at(902).count) - 2;
  o.type = type == 9 ? 14 : type;
  operand_of(o.size, d.at<int64_t>(902), space);
  operand_of(o.step, d.at<int64_t>(903), space);
  return o;
}

int first_attribute(int kind) {
  return kind == kForward ? 700 : kind == kData ? 706 : 712;
}

// Sizes that belong together.
bool fits(const Descriptor& op) {
  const int first = first_attribute(op.kind);
  if (!op.has({first, first + 1, first + 2, first + 3, first + 4, first + 5})) return false;
  const Descriptor& c = op.part(first + 2);
  const Operand w = operand(op.part(first + 3)), x = operand(op.part(first + 4)),
                y = operand(op.part(first + 5));
  const auto space = static_cast<int>(*c.at<int64_t>(106));
  for (int d = 0; d < space; ++d) {
    const int at = 5 - space + d;
    const int64_t reach = x.size[at] + c.at<int64_t>(105)[d] + c.at<int64_t>(104)[d] -
                          (w.size[at] - 1) * c.at<int64_t>(102)[d];
    if ((reach - 1) / c.at<int64_t>(103)[d] + 1 != y.size[at]) return false;
  }
  const bool wide = x.type == 1;
  return x.size[0] == y.size[0] && w.size[0] == y.size[1] && x.size[1] % w.size[1] == 0 &&
         op.values.at(first).type == (wide ? kTypeDouble : kTypeFloat) &&
         *c.at<int>(100) == (wide ? 1 : 0);
}

std::vector<int> engines(const Descriptor& heuristic) {
  if (*heuristic.at<int>(200) == 2) return {kFallback};
  if (is_graph(heuristic.part(201))) return {kLoose, kGood};
  return {kWrong, kLoose, kTf32, kGood};
}
std::vector<int> notes(int engine) {
  if (engine == kWrong) return {0, 5};
  if (engine == kLoose) return {4};
  if (engine == kTf32) return {0};  // as cuDNN 9: not that it converts
  return {9};
}

}  // namespace

#define CALL extern "C" __attribute__((visibility("default"))) int

extern "C" __attribute__((visibility("default"))) const char* cudnnGetErrorString(int) {
  return "as asked";
}
extern "C" __attribute__((visibility("default"))) size_t cudnnGetVersion() {
  const char* v = std::getenv("STANDIN_CUDNN_VERSION");
  return v ? static_cast<size_t>(std::atoll(v)) : 91900;
}
CALL cudnnCreate(void** out) {
  return failing() ? kInternal : (*out = new Handle, kSuccess);
}
CALL cudnnSetStream(void* handle, void* stream) {
  return failing() ? kInternal : (static_cast<Handle*>(handle)->stream = stream, kSuccess);
}
CALL cudnnBackendCreateDescriptor(int kind, void** out) {
  return failing() ? kInternal : (*out = new Descriptor{kind, false, {}, kGood}, kSuccess);
}
CALL cudnnBackendDestroyDescriptor(void* d) {
  return delete static_cast<Descriptor*>(d), kSuccess;
}
CALL cudnnBackendSetAttribute(void* descriptor, int name, int type, int64_t count,
                              const void* values) {
  if (failing()) return kInternal;
  auto& d = *static_cast<Descriptor*>(descriptor);
  if (d.finished) return kBad;
  if (type == kTypeDescriptor)
    for (int64_t i = 0; i < count; ++i)
      if (!static_cast<Descriptor* const*>(values)[i]->finished) return kBad;
  const auto* from = static_cast<const char*>(values);
  d.values[name] = {type, count, {from, from + static_cast<size_t>(count) * bytes_of(type)}};
  return kSuccess;
}
CALL cudnnBackendGetAttribute(void* descriptor, int name, int type, int64_t wanted, int64_t* count,
                              void* values) {
  if (failing()) return kInternal;
  const auto& d = *static_cast<Descriptor*>(descriptor);
  if (name == 202 && d.kind == 4 && d.finished && type == kTypeDescriptor) {
    *count = 0;
    for (int e : engines(d)) {
      if (*count == wanted) break;
      auto& config = *static_cast<Descriptor**>(values)[(*count)++];
      if (config.kind != 3) return kBad;
      config.engine = e, config.finished = true;
      config.values[-1] = d.values.at(201);  // the graph
    }
    return kSuccess;
  }
  if (name == 300 && d.kind == 3 && d.finished) {
    auto& engine = **static_cast<Descriptor**>(values);
    return engine.engine = d.engine, engine.finished = true, *count = 1, kSuccess;
  }
  if (name == 1303 && d.kind == 2 && d.finished) {
    const auto all = notes(d.engine);
    *count = static_cast<int64_t>(all.size());
    std::memcpy(values, all.data(), all.size() * sizeof(int));
    return kSuccess;
  }
  if (name == 402 && d.kind == 5 && d.finished) {
    *static_cast<int64_t*>(values) = d.part(401).engine == kGood ? kBytes : 0;
    return *count = 1, kSuccess;
  }
  return kBad;
}
CALL cudnnBackendFinalize(void* descriptor) {
  if (failing()) return kInternal;
  auto& d = *static_cast<Descriptor*>(descriptor);
  static const std::map<int, std::vector<int>> needed = {
      {0, {0, 1}},
      {1, {100, 101, 102, 103, 104, 105, 106}},
      {4, {200, 201}},
      {5, {400, 401}},
      {13, {750, 751, 753}},
      {15, {800, 801}},
      {16, {1000, 1001, 1003}},
      {17, {900, 901, 902, 903, 906}},
      {18, {1500}},
      {19, {1520, 1521, 1522, 1523}},
      {21, {1600, 1601}},
      {22, {1610, 1611, 1612}},
      {31, {2200, 2201}},
  };
  if (auto it = needed.find(d.kind); it != needed.end())
    for (int name : it->second)
      if (!d.values.count(name)) return kBad;
  if (d.kind >= kForward && d.kind <= kData && !fits(d)) return kBad;
  if (!operation_fits(d)) return kBad;
  return d.finished = true, kSuccess;
}
CALL cudnnBackendExecute(void* handle, void* plan, void* pack) {
  if (failing()) return kInternal;
  const auto &p = *static_cast<Descriptor*>(plan), &v = *static_cast<Descriptor*>(pack);
  if (!p.finished || !v.finished) return kBad;
  const Descriptor& config = p.part(401);
  if (config.engine == kGood && !*v.at<void*>(1003)) return kBad;
  if (const Descriptor& graph = config.part(-1); is_graph(graph)) {
    const auto done = std::make_shared<bool>(true);
    const auto job = [=, &graph, pack = v, uses = config.engine == kGood] {
      if (uses) std::memset(*pack.at<void*>(1003), 0xff, kBytes);
      *done = run_graph(graph, pack);
    };
    if (int error = on_stream(static_cast<Handle*>(handle)->stream, job)) return error;
    return *done ? kSuccess : kBad;
  }
  const Descriptor& op = config.part(-1).part(801);
  const int first = first_attribute(op.kind);
  const Descriptor &c = op.part(first + 2), &w = op.part(first + 3), &x = op.part(first + 4),
                   &y = op.part(first + 5);
  const auto pointer = [&](const Descriptor& t) -> void* {
    for (int64_t i = 0; i < v.values.at(1000).count; ++i)
      if (v.at<int64_t>(1000)[i] == *t.at<int64_t>(906)) {
        void* at = v.at<void*>(1001)[i];
        if (reinterpret_cast<uintptr_t>(at) % static_cast<uintptr_t>(*t.at<int64_t>(900)) == 0)
          return at;
      }
    return nullptr;
  };
  void* workspace = *v.at<void*>(1003);
  if (!pointer(x) || !pointer(w) || !pointer(y) || (config.engine == kGood && !workspace))
    return kBad;
  Shape s;
  const auto space = static_cast<int>(*c.at<int64_t>(106));
  last_of(s.stride, c.at<int64_t>(103), space);
  last_of(s.dilation, c.at<int64_t>(102), space);
  last_of(s.padding, c.at<int64_t>(105), space);
  const double beta = op.values.at(first + 1).type == kTypeDouble ? *op.at<double>(first + 1)
                                                                  : *op.at<float>(first + 1);
  const Kind kind = op.kind == kForward ? Kind::Forward
                    : op.kind == kData  ? Kind::Input
                                        : Kind::Weight;
  if (config.engine <= kLoose) return kUnsupported;
  return on_stream(static_cast<Handle*>(handle)->stream,
                   [=, engine = config.engine, ox = operand(x), ow = operand(w), oy = operand(y),
                    px = pointer(x), pw = pointer(w), py = pointer(y)] {
                     if (engine == kGood) std::memset(workspace, 0xff, kBytes);
                     convolve(kind, s, ox, ow, oy, px, pw, py, beta,
                              engine == kTf32 && ox.type == 0);
                   });
}
