// Counts of what products, convolutions and attention calculate, for torch.utils.flop_counter: two
// for each product of numbers that is added. Kernels are counted as they are called, forward and
// backward.
#include <map>
#include <vector>

#include "common.h"
#include "core/values.h"
#include "engine/autograd.h"
#include "engine/trace.h"
#include "table/kernels/attention.h"
#include "table/kernels/conv.h"
#include "table/kernels/float8.h"
#include "table/kernels/matmul.h"
#include "table/kernels/recurrent.h"

namespace pyflame::python {

namespace {

using Tensors = std::span<const Tensor>;
using Counts = std::map<std::string, int64_t>;  // by the name of PyTorch's operator

// Those who count in a thread, the newest last. The watcher is there while anybody counts.
thread_local std::vector<Counts> counting;
std::atomic<int> counters{0};

int64_t last(const Tensor& t, int from_behind = 1) {
  return t->shape[t->shape.size() - from_behind];
}
// Out of a product, whose first operand is a matrix [m, k] or its transpose.
int64_t product(const Tensor& out, const Tensor& a) {
  return out->numel ? 2 * out->numel * (last(a) * last(a, 2) / last(out, 2)) : 0;
}
// PyTorch folds the rows of a batch where the second operand is one matrix.
const char* product_name(const Tensor& b, const Tensor& bias) {
  if (b->numel != last(b) * last(b, 2)) return bias.defined() ? "baddbmm" : "bmm";
  return bias.defined() ? "addmm" : "mm";
}
// Each of y's elements is made with what the weights of one channel are.
int64_t convolution(const Tensor& y, const Tensor& weight) {
  return weight->numel ? 2 * y->numel * (weight->numel / weight->shape[0]) : 0;
}

std::vector<int64_t> lengths(const Tensor& starts, int64_t rows) {
  const auto n = static_cast<size_t>(starts->numel - 1);
  if (starts->storage->device.type == DeviceType::Meta)
    return std::vector<int64_t>(n, n ? rows / static_cast<int64_t>(n) : 0);
  const std::vector<Scalar> places = read_values(starts);
  std::vector<int64_t> r;
  for (size_t i = 0; i < n; ++i) r.push_back(places[i + 1].to_int() - places[i].to_int());
  return r;
}
// Pairs of queries and keys, of all heads; masks and windows are not looked at, as in PyTorch.
int64_t pairs(const Tensor& out, const Tensor& k, const Tensor& starts_q, const Tensor& starts_k,
              const Tensor& used_k) {
  const int64_t queries = last(out, 2), keys = last(k, 2);
  if (!out->numel) return 0;
  const int64_t heads = out->numel / (queries * last(out));
  if (!starts_q.defined() && !used_k.defined()) return heads * queries * keys;
  std::vector<int64_t> n;
  if (starts_q.defined()) n = lengths(starts_q, queries);
  std::vector<int64_t> m;
  if (used_k.defined() && used_k->storage->device.type != DeviceType::Meta)
    for (Scalar s : read_values(used_k)) m.push_back(s.to_int());
  else if (starts_k.defined())
    m = lengths(starts_k, keys);
  int64_t sum = 0;
  for (size_t i = 0; i < n.size(); ++i) sum += n[i] * (i < m.size() ? m[i] : keys);
  return heads * sum;
}

template <class K>
bool is(const engine::Kernel& k) {
  return std::string_view(k.name) == K::kInfo.name;
}

void count(const engine::Kernel& k, Tensors outs, Tensors ins) {
  if (counting.empty()) return;
  const auto at = [&](int i) -> const Tensor& {
    const auto place = static_cast<size_t>(i);
    return place < outs.size() ? outs[place] : ins[place - outs.size()];
  };
  const bool backward = autograd::current_pass().number != 0;
  const char* name = nullptr;
  int64_t flops = 0;
  using namespace kernels;
  if (is<Matmul>(k)) {
    constexpr auto t = tensors<Matmul>;
    name = product_name(at(t.b), at(t.bias));
    flops = product(at(t.out), at(t.a));
  } else if (is<ScaledMatmul>(k)) {
    constexpr auto t = tensors<ScaledMatmul>;
    name = "_scaled_mm";
    flops = product(at(t.out), at(t.a));
  } else if (is<Conv>(k)) {
    constexpr auto t = tensors<Conv>;
    name = backward ? "convolution_backward" : "convolution";
    flops = convolution(at(t.y), at(t.weight));
  } else if (is<ConvInput>(k)) {  // forward: a transposed one
    constexpr auto t = tensors<ConvInput>;
    name = backward ? "convolution_backward" : "convolution";
    flops = convolution(at(t.dy), at(t.weight));
  } else if (is<ConvWeight>(k)) {
    constexpr auto t = tensors<ConvWeight>;
    name = "convolution_backward";
    flops = convolution(at(t.dy), at(t.dweight));
  } else if (is<Sdpa>(k)) {
    constexpr auto t = tensors<Sdpa>;
    const int64_t width = last(at(t.q)) + last(at(t.v));
    name = "_scaled_dot_product_flash_attention";
    flops = 2 * width * pairs(at(t.out), at(t.k), at(t.starts_q), at(t.starts_k), at(t.used_k));
  } else if (is<SdpaBackward>(k)) {
    constexpr auto t = tensors<SdpaBackward>;
    const int64_t width = 3 * last(at(t.q)) + 2 * last(at(t.v));
    name = "_scaled_dot_product_flash_attention_backward";
    flops = 2 * width * pairs(at(t.out), at(t.k), at(t.starts_q), at(t.starts_k), at(t.used_k));
  } else if (is<Recurrent>(k) || is<RecurrentBackward>(k)) {
    constexpr auto f = tensors<Recurrent>;
    constexpr auto b = tensors<RecurrentBackward>;
    const bool forward = is<Recurrent>(k);
    const Tensor &x = at(forward ? f.x : b.dx), &weight = at(forward ? f.weight : b.weight),
                 &projection = at(forward ? f.projection : b.projection);
    name = "mm";
    const int64_t rows = x->shape.empty() || !last(x) ? 0 : x->numel / last(x);
    flops = 2 * rows * (weight->numel + (projection.defined() ? projection->numel : 0));
  }
  if (!name || !flops) return;
  for (Counts& c : counting) c[name] += flops;
}

}  // namespace

void init_flops(nb::module_& m) {
  m.def("_flops_begin", [] {
    counting.emplace_back();
    if (counters.fetch_add(1) == 0) engine::watch_kernels(count);
  });
  m.def("_flops_end", [] {
    counting.pop_back();
    if (counters.fetch_sub(1) == 1) engine::watch_kernels(nullptr);
  });
  m.def(
      "_flops_take",
      [](size_t depth) {
        nb::dict taken;
        for (const auto& [name, flops] : std::exchange(counting.at(depth), {}))
          taken[name.c_str()] = flops;
        return taken;
      },
      "What the counter at a depth has counted since the last time, by the operator's name.");
  m.def("_flops_depth", [] { return counting.size(); });
}

}  // namespace pyflame::python
