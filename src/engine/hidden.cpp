// Hidden dimensions: levels, showing, hiding, growth, and the slow way through kernels.
#include "engine/hidden.h"

#include <algorithm>
#include <atomic>
#include <utility>
#include <vector>

#include "core/inference.h"
#include "engine/region.h"
#include "engine/trace.h"
#include "table/kernels/move.h"

namespace pyflame::engine {

// ---- levels -------------------------------------------------------------------------------------

void Levels::add(Level level) {
  if (has(level.id)) return;
  PF_CHECK(n_ < Hidden::kMost, NotSupportedError, "vmap", "got ", n_ + 1,
           " nested levels; at most ", Hidden::kMost, " are supported");
  int at = n_++;
  for (; at > 0 && levels_[at - 1].id > level.id; --at) levels_[at] = levels_[at - 1];
  levels_[at] = level;
}
void Levels::add(const Tensor& t) {
  if (const Hidden* h = hidden_of(t))
    for (int i = 0; i < h->n; ++i) add({h->dims[i].level, h->dims[i].size});
}
bool Levels::has(uint32_t id) const {
  return std::any_of(begin(), end(), [id](const Level& l) { return l.id == id; });
}
Levels Levels::without(const Levels& others) const {
  Levels r;
  for (const Level& l : *this)
    if (!others.has(l.id)) r.add(l);
  return r;
}
int64_t Levels::samples() const {
  int64_t n = 1;
  for (const Level& l : *this) n *= l.size;
  return n;
}

const Hidden* hidden_of(const Tensor& t) {
  catch_up(*t.impl());
  return t->hidden.get();
}

bool is_hidden(const Tensor& t) {
  return hiding() && t.defined() && hidden_of(t);
}

void refuse_to_read(const Tensor& t) {
  PF_CHECK(!is_hidden(t), NotSupportedError, "vmap", "the values of a tensor of shape ", t->shape,
           " that differ from sample to sample were to be read (item(), tolist(), numpy(), if, or "
           "a result whose shape depends on values); inside of vmap() there is no one value: use "
           "operations, such as where() in the place of if");
}

int64_t samples_of(const Tensor& t) {
  if (!is_hidden(t)) return 1;
  Levels l;
  l.add(t);
  return l.samples();
}

namespace {
struct Active {
  Level level;
  Randomness randomness;
};
thread_local std::vector<Active>* t_active = nullptr;
}  // namespace

uint32_t begin_level(int64_t size, Randomness randomness) {
  if (!t_active) t_active = new std::vector<Active>();
  const uint32_t id = pyflame::detail::g_newest_vmap.fetch_add(1) + 1;
  t_active->push_back({{id, size}, randomness});
  pyflame::detail::g_hiding.fetch_add(1);
  return id;
}
void end_level() {
  t_active->pop_back();
  if (t_active->empty()) delete std::exchange(t_active, nullptr);
  pyflame::detail::g_hiding.fetch_sub(1);
}
void* set_levels_aside() {
  return std::exchange(t_active, nullptr);
}
void put_levels_back(void* levels) {
  t_active = static_cast<std::vector<Active>*>(levels);
}
bool within_vmap() {
  return t_active != nullptr;
}
Levels active_levels() {
  Levels r;
  if (t_active)
    for (const Active& a : *t_active) r.add(a.level);
  return r;
}

Randomness randomness_at(uint32_t level) {
  if (t_active)
    for (const Active& a : *t_active)
      if (a.level.id == level) return a.randomness;
  return Randomness::Error;
}

Levels random_levels(const char* op) {
  Levels r;
  if (!t_active) return r;
  for (const Active& a : *t_active) {
    PF_CHECK(a.randomness != Randomness::Error, AutogradError, op,
             "random numbers inside of vmap() may be the same for all samples or differ; pass "
             "randomness='same' or randomness='different' to vmap()");
    if (a.randomness == Randomness::Different) r.add(a.level);
  }
  return r;
}

// ---- showing and hiding -------------------------------------------------------------------------

namespace {

Tensor plain(const TensorImpl& like, Storage* s, DType dtype, const Dims& shape,
             const Dims& strides, int64_t offset) {
  Tensor r = look_at(s, dtype, like.floating, shape, strides, offset);
  r->apart = like.apart;
  return r;
}

const Hidden::Dim* dim_of(const Hidden* h, uint32_t level) {
  for (int i = 0; h && i < h->n; ++i)
    if (h->dims[i].level == level) return &h->dims[i];
  return nullptr;
}

}  // namespace

Tensor shown(const Tensor& t, const Levels& levels, int rank, bool whole) {
  const Hidden* h = hidden_of(t);
  Dims shape, strides;
  for (const Level& l : levels) {
    const Hidden::Dim* d = dim_of(h, l.id);
    shape.push_back(d || whole ? l.size : 1);
    strides.push_back(d ? d->stride : 0);
  }
  for (int i = t->shape.size(); i < rank; ++i) {
    shape.push_back(1);
    strides.push_back(0);
  }
  for (int i = 0; i < t->shape.size(); ++i) {
    shape.push_back(t->shape[i]);
    strides.push_back(t->strides[i]);
  }
  return plain(*t.impl(), t->storage.get(), t->dtype, shape, strides, t->offset);
}

Tensor hide_front(Tensor fresh, const Levels& levels) {
  Hidden* h = Hidden::create();
  fresh->hidden = Ref<Hidden>::adopt(h);
  for (const Level& l : levels) {
    h->dims[h->n++] = {l.id, l.size, fresh->strides[0]};
    fresh->shape.erase(0);
    fresh->strides.erase(0);
  }
  fresh->numel = numel(fresh->shape);
  fresh->contiguous = is_contiguous(fresh->shape, fresh->strides);
  return fresh;
}

void grow(const Tensor& t, const Levels& more, const char* op) {
  catch_up(*t.impl());
  Storage& s = *t->storage;
  for (const Level& l : more)
    PF_CHECK((s.born & ~kMadeForInference) >= l.id && !s.foreign && !s.readonly, ValueError, op,
             "values that differ from sample to sample cannot be written into a tensor of shape ",
             t->shape,
             " that was made outside of vmap(), where all samples share it; write to a "
             "clone() of it, or use the operation that makes a new tensor");
  PF_CHECK(info(t->dtype).bits >= 8, NotSupportedError, op, "got ", t->dtype,
           " inside of vmap(); convert it with .to(dtype)");
  auto* g = new Grown;
  Dims shape;
  for (const Level& l : more) {
    g->dims[g->n++] = {l.id, l.size, 0};
    shape.push_back(l.size);
  }
  const auto samples = static_cast<size_t>(more.samples());
  g->storage = StorageHandle::share(Storage::create(s.device, s.nbytes * samples));
  g->storage->born = s.born;
  g->storage->version = s.version;
  g->storage->unseen = s.unseen;
  if (s.nbytes > 0 && samples > 0 && (s.data || s.writer.load(std::memory_order_acquire))) {
    ++g->storage->version;
    const size_t item = itemsize(t->dtype);
    const bool fits = s.nbytes % item == 0;
    const DType dtype = fits ? t->dtype : DType::UInt8;
    const auto n = static_cast<int64_t>(fits ? s.nbytes / item : s.nbytes);
    const Tensor from = plain(*t.impl(), &s, dtype, {n}, {1}, 0);
    shape.push_back(n);
    const Tensor to =
        plain(*t.impl(), g->storage.get(), dtype, shape, contiguous_strides(shape), 0);
    call<kernels::Copy>({to, from}, {.takes = Takes::All});
  }
  ++s.version;  // who saved it for the backward pass would look at other values
  s.grown = g;
  catch_up(*t.impl());
}

// ---- the three ways in --------------------------------------------------------------------------

namespace {

// The operands shown for a result of `rank` dimensions; `held` keeps them.
void show_operands(std::span<const Operand> operands, const Levels& levels, int rank, Operand* list,
                   Tensor* held) {
  for (size_t i = 0; i < operands.size(); ++i) {
    list[i] = operands[i];
    if (!operands[i].tensor) continue;
    held[i] = shown(*operands[i].tensor, levels, rank, false);
    list[i].tensor = &held[i];
  }
}

Dims with_levels(const Levels& levels, const Dims& shape) {
  Dims r;
  for (const Level& l : levels) r.push_back(l.size);
  for (int64_t n : shape) r.push_back(n);
  return r;
}

Levels levels_of(std::span<const Operand> operands) {
  Levels r;
  for (const Operand& o : operands)
    if (o.tensor) r.add(*o.tensor);
  return r;
}

}  // namespace

Tensor pointwise_hidden(OpId op, const Dims& shape, DType out, DType compute, Device device,
                        std::span<const Operand> operands, std::span<const Scalar> attrs) {
  const Levels levels = levels_of(operands);
  if (levels.empty()) return {};
  Operand list[PF_MAX_OPERANDS] = {Scalar(), Scalar(), Scalar(), Scalar()};
  Tensor held[PF_MAX_OPERANDS];
  show_operands(operands, levels, shape.size(), list, held);
  return hide_front(pointwise(op, with_levels(levels, shape), out, compute, device,
                              {list, operands.size()}, attrs),
                    levels);
}

bool pointwise_into_hidden(OpId op, const Tensor& dst, DType compute,
                           std::span<const Operand> operands, std::span<const Scalar> attrs) {
  Levels own, levels = levels_of(operands);
  own.add(dst);
  levels.add(dst);
  if (levels.empty()) return false;
  if (const Levels more = levels.without(own); !more.empty()) grow(dst, more, "in-place operation");
  Operand list[PF_MAX_OPERANDS] = {Scalar(), Scalar(), Scalar(), Scalar()};
  Tensor held[PF_MAX_OPERANDS];
  // The operands may look at what has grown.
  show_operands(operands, levels, dst->shape.size(), list, held);
  pointwise_into(op, shown(dst, levels, dst->shape.size(), true), compute, {list, operands.size()},
                 attrs);
  return true;
}

std::vector<Tensor> HiddenCall::show(std::span<const Tensor> tensors, bool whole) const {
  std::vector<Tensor> r;
  r.reserve(tensors.size());
  for (const Tensor& t : tensors)
    r.push_back(t.defined() ? shown(t, levels, t->shape.size(), whole) : Tensor());
  return r;
}

void HiddenCall::run(const std::vector<Tensor>& o, const std::vector<Tensor>& i,
                     std::span<const Scalar> numbers) const {
  call(kernel, o, i, numbers, options);
  for (size_t k = 0; k < o.size(); ++k)  // where a fresh result was made
    if (o[k].defined() && outs[k].defined()) outs[k]->floating = o[k]->floating;
}

namespace {

// The sample `at` of a shown tensor.
Tensor sample(const Tensor& t, const Levels& levels, int64_t at) {
  if (!t.defined()) return t;
  Dims shape = t->shape, strides = t->strides;
  int64_t offset = t->offset;
  for (int i = levels.size() - 1; i >= 0; --i) {
    offset += at % levels[i].size * strides[i];
    at /= levels[i].size;
  }
  for (int i = 0; i < levels.size(); ++i) {
    shape.erase(0);
    strides.erase(0);
  }
  return plain(*t.impl(), t->storage.get(), t->dtype, shape, strides, offset);
}

void run_each(const HiddenCall& c) {
  const std::vector<Tensor> outs = c.show(c.outs), ins = c.show(c.ins);
  const int64_t samples = c.levels.samples();
  if (samples > 1)
    slow_path(c.options.op, std::string("the kernel ") + c.kernel.name + " runs once for each of " +
                                std::to_string(samples) + " samples of vmap()");
  for (int64_t at = 0; at < samples; ++at) {
    std::vector<Tensor> o, i;
    for (const Tensor& t : outs) o.push_back(sample(t, c.levels, at));
    for (const Tensor& t : ins) i.push_back(sample(t, c.levels, at));
    c.run(o, i, c.attrs);
  }
}

}  // namespace

bool call_hidden(const Kernel& k, std::span<const Tensor> outs, std::span<const Tensor> ins,
                 std::span<const Scalar> attrs, const CallOptions& options) {
  Levels levels;
  for (const Tensor& t : ins)
    if (t.defined()) levels.add(t);
  for (const Tensor& t : outs)
    if (t.defined()) levels.add(t);
  if (levels.empty()) return false;
  for (const Tensor& t : outs) {
    if (!t.defined()) continue;
    Levels own;
    own.add(t);
    if (const Levels more = levels.without(own); !more.empty()) grow(t, more, options.op);
  }
  const HiddenCall c{k, outs, ins, attrs, options, levels};
  if (levels.samples() == 0 || run_by_rule(c)) return true;
  run_each(c);
  return true;
}

}  // namespace pyflame::engine
