#include "engine/takeover.h"

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

#include "engine/capture.h"
#include "engine/counters.h"
#include "engine/hazards.h"
#include "engine/hidden.h"
#include "table/kernels/matmul.h"

namespace pyflame::engine {
namespace {

// Below this a second allocation costs nobody anything.
constexpr size_t kSmallest = size_t{4} << 20;

struct Waiting {
  Mutex mutex;
  std::vector<Group*> all, spare;  // never freed: a storage may still name one
};
Waiting& waiting() {
  static auto* w = new Waiting;
  return *w;
}
Group* take_group() {
  Waiting& w = waiting();
  std::lock_guard lock(w.mutex);
  if (w.spare.empty()) {
    w.all.push_back(new Group);
    w.all.back()->waits_for_reader = true;
    return w.all.back();
  }
  Group* g = w.spare.back();
  w.spare.pop_back();
  return g;
}
void give_group(Group& g) {
  g.error = nullptr;
  g.left_by = nullptr;
  Waiting& w = waiting();
  std::lock_guard lock(w.mutex);
  w.spare.push_back(&g);
}

// Only this window has work with it, and nobody else has its address.
bool is_ours(const Storage& s, Group& g, StreamState* stream) {
  return s.data && s.block && s.block->stream == stream && s.block->users.empty() && !s.foreign &&
         !s.exposed && !s.readonly && !s.poisoned && !s.pinned && !s.replicas && !s.grown &&
         s.version == 0 && !s.writer.load(std::memory_order_relaxed) &&
         s.reader.load(std::memory_order_relaxed) == &g;
}

// The window of a group of its own: the product, and nothing else.
void let_wait(Storage& s, Device device, const MadeBy& made, const Capture* capture) {
  using namespace kernels;
  Group* g = take_group();
  std::lock_guard lock(g->mutex);
  constexpr auto at = tensors<Matmul>;
  AnchorCall& a = g->anchor;
  a.kernel = &kernel<Matmul>();
  a.options = {.op = "linear"};
  a.reads_beside = 0;
  a.nouts = Matmul::kInfo.outputs;
  a.ntensors = kCount<Matmul::Tensors>;
  a.nattrs = kCount<Matmul::Numbers>;
  a.attrs[numbers<Matmul>.a_transposed] = to_kernel_scalar(Scalar(int64_t{0}));
  a.attrs[numbers<Matmul>.b_transposed] = to_kernel_scalar(Scalar(int64_t{1}));
  const auto put = [&](int i, const Tensor& t) {
    a.shapes[i] = t->shape;
    set_place(a.tensors[i], *t.impl(), t->shape);
    mark_reader(*t->storage, *g);
  };
  put(at.a, made.a);
  put(at.b, made.b);
  a.tensors[at.bias] = {};
  if (made.bias.defined()) put(at.bias, made.bias);
  Dims shape = made.a->shape;
  shape[shape.size() - 1] = made.b->shape[0];
  Place& out = a.tensors[at.out];
  a.shapes[at.out] = shape;
  out.storage = Ref<Storage>::share(&s);
  out.dtype = made.a->dtype;
  out.offset = 0;
  out.contiguous = true;
  out.strides = contiguous_strides(shape);
  g->device = device;
  g->left_by = capture;
  g->has_anchor = true;
  s.writer_node = code_of(kAnchor, at.out);
  s.writer.store(g, std::memory_order_release);
}

}  // namespace

void may_take_over(const Tensor& to, const Tensor& from, std::optional<MadeBy> again) {
  const auto is_there = [&from](const Tensor& t) {
    return !t.defined() || (t->storage->device == from->storage->device && t->storage->data &&
                            !t->storage->writer.load(std::memory_order_relaxed));
  };
  if (again && !(is_there(again->a) && is_there(again->b) && is_there(again->bias))) again.reset();
  if (to->storage->nbytes != from->storage->nbytes || to->storage->nbytes < kSmallest ||
      among_samples(to, from))
    return;
  Group& g = current_group();
  std::lock_guard lock(g.mutex);
  if (!g.has_anchor || !writes(g, *to->storage, kAnchor)) return;
  g.takeover = std::make_shared<Takeover>(Takeover{Ref<Storage>::share(to->storage.get()),
                                                   Ref<Storage>::share(from->storage.get()),
                                                   std::move(again)});
}

bool take_over(Group& g, StreamState* stream, const MemoryUse& use) {
  const Takeover& t = *g.takeover;
  Storage &to = *t.to, &from = *t.from;
  if (g.capture && !g.capture->may_move(from)) return false;
  if (to.data || !is_ours(from, g, stream)) return false;
  for (const Phase& ph : g.phases)
    for (int i = 0; i < ph.ninputs; ++i)
      if (ph.inputs[i].storage.get() == &from) return false;
  const bool seen = from.handles.load(std::memory_order_relaxed) > 0;
  if (seen && !t.again) return false;
  to.data = std::exchange(from.data, nullptr);
  to.block = std::exchange(from.block, nullptr);
  relabel(*to.block, use);
  bump(counters().donated);
  if (seen) let_wait(from, g.device, *t.again, g.capture);
  return true;
}

static thread_local const Group* t_making = nullptr;

void make_again(Group& g, Flush why) {
  std::lock_guard lock(g.mutex);
  if (g.empty()) return;
  const Group& mine = current_group();
  if (mine.capture) mine.capture->note_read_again();
  std::copy(std::begin(mine.streams), std::end(mine.streams), std::begin(g.streams));
  t_making = &g;
  run_group(g, why);
  t_making = nullptr;
  give_group(g);
}

bool waits_in(const Capture& c) {
  Waiting& w = waiting();
  std::lock_guard lock(w.mutex);
  return std::any_of(w.all.begin(), w.all.end(),
                     [&c](const Group* g) { return g->left_by == &c && !g->empty(); });
}

void forget_capture(const Capture& c) noexcept {
  Waiting& w = waiting();
  std::lock_guard lock(w.mutex);
  for (Group* g : w.all)
    if (g->left_by == &c) g->left_by = nullptr;
}

void make_again_if_it_waits(Storage& s) {
  Group* g = s.writer.load(std::memory_order_acquire);
  if (g && g->waits_for_reader && g != t_making) make_again(*g, Flush::OtherThread);
}

void make_all_again(Flush why) {
  std::vector<Group*> all;
  {
    Waiting& w = waiting();
    std::lock_guard lock(w.mutex);
    all = w.all;
  }
  for (Group* g : all) make_again(*g, why);
}

void forget_again(Group& g, Storage& s) noexcept {
  std::lock_guard lock(g.mutex);
  if (s.writer.load(std::memory_order_relaxed) != &g) return;
  abandon(g);
  give_group(g);
}

}  // namespace pyflame::engine
