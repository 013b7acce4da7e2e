// The executor of pointwise groups: a chain over 16 M floats against a copy of the same size, in
// alternation since the machine's bandwidth drifts, and what a node costs on 64 floats.
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "cpu/convert.h"
#include "cpu/tape.h"
#include "cpu/threads.h"
#include "cpu/tile.h"
#include "table/rows.h"

using namespace pyflame;
using namespace pyflame::cpu;
using Clock = std::chrono::steady_clock;

namespace {

double seconds(Clock::time_point since) {
  return std::chrono::duration<double>(Clock::now() - since).count();
}
float* floats(int64_t n) {
  const size_t bytes = static_cast<size_t>(n) * 4;
  void* p = std::aligned_alloc(size_t{2} << 20, (bytes + (size_t{2} << 20) - 1) >> 21 << 21);
  madvise(p, bytes, MADV_HUGEPAGE);
  float* f = static_cast<float*>(p);
  for (int64_t i = 0; i < n; ++i) f[i] = static_cast<float>(i % 1000) * 0.004f - 2;
  return f;
}

pf_node node(int op, std::vector<pf_ref> in, int store = -1) {
  pf_node n{};
  n.op = static_cast<uint16_t>(op);
  n.dtype = n.compute = static_cast<uint8_t>(DType::Float32);
  n.nin = static_cast<uint8_t>(in.size());
  n.store = static_cast<int8_t>(store);
  std::copy(in.begin(), in.end(), n.in);
  return n;
}
pf_ref input(int i) {
  return {PF_REF_INPUT, static_cast<uint8_t>(i)};
}
pf_ref result(int i) {
  return {PF_REF_NODE, static_cast<uint8_t>(i)};
}
pf_ref number(int i) {
  return {PF_REF_SCALAR, static_cast<uint8_t>(i)};
}
void* compile(const std::vector<pf_node>& nodes, int ninputs, int nscalars) {
  const uint8_t f32[8] = {};
  const pf_program p{static_cast<uint32_t>(nodes.size()),
                     static_cast<uint32_t>(ninputs),
                     1,
                     static_cast<uint32_t>(nscalars),
                     nodes.data(),
                     f32,
                     f32};
  void* kernel = nullptr;
  if (program_create(&p, &kernel) != PF_OK) std::abort();
  return kernel;
}

void large(int op, const char* name) {
  const int64_t n = 16 << 20, cols = 1024;
  static float *x = floats(n), *y = floats(n), *b = floats(cols);
  namespace row = ops::op;
  // gelu((x + b) * 0.5) + x, b one row.
  void* k = compile({node(row::add, {input(0), input(1)}), node(row::mul, {result(0), number(0)}),
                     node(op, {result(1)}), node(row::add, {result(2), input(0)}, 0)},
                    2, 1);
  const int64_t shape[2] = {n / cols, cols}, dense[2] = {cols, 1}, spread[2] = {0, 1};
  const pf_operand in[2] = {{x, dense, 1}, {b, spread, 0}}, out = {y, dense, 1};
  const pf_scalar half = {0.5, 0};
  const pf_launch l{2, shape, n, in, &out, &half};
  pf_tensor from{}, to{};
  from.ndim = to.ndim = 1;
  from.shape[0] = to.shape[0] = n;
  from.strides[0] = to.strides[0] = 1;
  from.data = x;
  to.data = y;
  std::vector<double> chain, copy, ratio;
  for (int i = 0; i < 40; ++i) {
    auto t = Clock::now();
    convert(to, from);
    copy.push_back(seconds(t) * 1e3);
    t = Clock::now();
    program_launch(k, &l);
    chain.push_back(seconds(t) * 1e3);
    ratio.push_back(copy.back() / chain.back());
  }
  std::sort(chain.begin(), chain.end());
  std::sort(copy.begin(), copy.end());
  std::sort(ratio.begin(), ratio.end());
  std::printf(
      "%-10s chain over 16 M floats: %.2f ms (best %.2f), copy %.2f (best %.2f): %.0f %% of "
      "copy (best against best %.0f %%), %d threads, %s\n",
      name, chain[20], chain[0], copy[20], copy[0], 100 * ratio[20], 100 * copy[0] / chain[0],
      num_threads(), simd_name());
  program_destroy(k);
}

void small(int64_t n) {
  constexpr int kNodes = 32;
  float *x = floats(n), *y = floats(n), *b = floats(n);
  std::vector<pf_node> nodes;
  for (int i = 0; i < kNodes; ++i)
    nodes.push_back(
        node(table::op::add, {i ? result(i - 1) : input(0), input(1)}, i + 1 == kNodes ? 0 : -1));
  void* k = compile(nodes, 2, 0);
  const int64_t shape[1] = {n}, dense[1] = {1};
  const pf_operand in[2] = {{x, dense, 1}, {b, dense, 1}}, out = {y, dense, 1};
  const pf_launch l{1, shape, n, in, &out, nullptr};
  double best = 1e9;
  for (int round = 0; round < 50; ++round) {
    const auto t = Clock::now();
    for (int i = 0; i < 2000; ++i) program_launch(k, &l);
    best = std::min(best, seconds(t) / 2000);
  }
  std::printf("%lld floats, %d additions: %.1f ns a node\n", static_cast<long long>(n), kNodes,
              best * 1e9 / kNodes);
  program_destroy(k);
}

}  // namespace

int main() {
  for (int64_t n : {16, 50, 64, 256, 1024}) small(n);
  large(table::op::gelu, "gelu");
  large(table::op::gelu_tanh, "gelu_tanh");
  large(table::op::relu, "relu");
  return 0;
}
