#include "ops/autocast.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <unordered_map>

#include "core/room.h"
#include "engine/placement.h"
#include "ops/functions.h"
#include "ops/pointwise_text.h"
#include "pyflame/autograd.h"
#include "pyflame/device.h"
#include "table/range.h"

namespace pyflame {
namespace amp {
namespace {

// A cast that is kept. The alias holds the storage that the cast was made of, so that another one
// cannot come to lie at its address.
struct Kept {
  Tensor source, alias, cast;
  uint32_t version;
};
struct State {
  DType dtype[kSlots] = {DType::BFloat16, DType::Float16, DType::BFloat16};
  bool cache = true;
  int depth = 0;
  std::unordered_map<const TensorImpl*, Kept> casts[2];  // without and with gradients
  size_t look_at = 64;                                   // so many of them: who is left?
};
State& state() {
  static thread_local State s;
  return s;
}
[[maybe_unused]] const AtThreadStart kMade([] { AtThreadStart::touch(&state()); });

void clear(State& s) {
  for (auto& casts : s.casts) casts.clear();
}

// A weight is converted once in a region, however often it is used: it is a leaf that requires
// grad. A write to it, or another .data, is seen by version and storage.
Tensor kept_cast(State& s, const Tensor& t, DType want) {
  auto& casts = s.casts[grad_enabled()];
  if (auto it = casts.find(t.impl()); it != casts.end()) {
    const Kept& k = it->second;
    if (k.cast->dtype == want && k.alias->storage == t->storage &&
        k.version == t->storage->version && k.alias->offset == t->offset &&
        k.cast->shape == t->shape)
      return k.cast;
  }
  Kept k{t, make_view(t, t->shape, t->strides, t->offset), to(t, want), t->storage->version};
  Tensor cast = k.cast;
  if (casts.size() >= s.look_at) {
    // A region that is never left must not keep the leaves of all its steps.
    std::erase_if(casts, [](const auto& e) {
      return e.second.source.impl()->refs.load(std::memory_order_relaxed) == 1;
    });
    s.look_at = std::max<size_t>(64, 2 * casts.size());
  }
  casts.insert_or_assign(t.impl(), std::move(k));
  return cast;
}

struct Table {
  std::map<std::string, Class, std::less<>> by_name;
};
Table& table() {
  static auto* t = new Table;
  return *t;
}

}  // namespace

// As engine::Target settles it, without its checks.
void Casting::meet(const Tensor& t) {
  if (placed_ || !t.defined() || t->floating || engine::Target::is_number(*t.impl())) return;
  placed_ = true;
  where_ = t->device();
}

Slot Casting::slot_for(const Tensor& t) const {
  return slot_of((placed_ && t->floating ? where_ : runs_on({t})).type);
}

// float64 stays as it is, as in PyTorch.
bool Casting::takes_part(const Tensor& t) const {
  if (!t.defined() || !is_float(t->dtype) || t->dtype == DType::Float64 ||
      info(t->dtype).storage_only)
    return false;
  const Slot slot = slot_for(t);
  return (before_ >> slot & 1) && class_on(slot, class_) != Class::Follow;
}

void Casting::widen(const Tensor& t) {
  if (!takes_part(t)) return;
  widest_ = known_ ? promote(widest_, t->dtype) : t->dtype;
  known_ = true;
}

Tensor Casting::operator()(const Tensor& t) const {
  if (!takes_part(t)) return t;
  if (!placed_ || !t->floating) return converted(t);
  const DeviceScope there(where_);
  return converted(t);
}

Tensor Casting::converted(const Tensor& t) const {
  State& s = state();
  const Slot slot = slot_for(t);
  const Class c = class_on(slot, class_);
  if (c != Class::Lower) return to(t, c == Class::Promote ? widest_ : DType::Float32);
  const DType want = s.dtype[slot];
  if (t->dtype == want) return t;
  const bool keep = s.cache && s.depth > 0 && t->dtype == DType::Float32 && t->requires_grad;
  return keep ? kept_cast(s, t, want) : to(t, want);
}

std::vector<Tensor> Casting::operator()(const std::vector<Tensor>& list) const {
  std::vector<Tensor> r;
  r.reserve(list.size());
  for (const Tensor& t : list) r.push_back((*this)(t));
  return r;
}

Class class_of_row(ops::OpId id) {
  // 0: not looked at yet. Two threads that look at once find the same.
  static std::array<std::atomic<uint8_t>, 1 << 16> known{};
  uint8_t v = known[id].load(std::memory_order_relaxed);
  if (v == 0) {
    std::vector<double> attrs;
    if (id < ops::kNumRows)
      for (const auto& a : ops::describe(id).attrs) attrs.push_back(a.second);
    const bool raise = id == ops::op::square || table::leaves_range(ops::expression(id), attrs);
    v = static_cast<uint8_t>(1 +
                             static_cast<uint8_t>(raise ? Class::RaiseElseFollow : Class::Follow));
    known[id].store(v, std::memory_order_relaxed);
  }
  return static_cast<Class>(v - 1);
}

bool declare(const char* names, Class c) {
  for (std::string_view rest = names; !rest.empty();) {
    const size_t end = std::min(rest.find(' '), rest.size());
    table().by_name.emplace(rest.substr(0, end), c);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return true;
}

Class class_of(std::string_view name) {
  if (auto it = table().by_name.find(name); it != table().by_name.end()) return it->second;
  for (ops::OpId id = 0; id < ops::kNumRows; ++id)
    if (name == ops::kRowTable[id].name) return class_of_row(id);
  return Class::Follow;
}

Class class_on(Slot slot, Class c) {
  const bool cpu = slot == kCpu;
  switch (c) {
    case Class::RaiseElseFollow:
      return cpu ? Class::Follow : Class::Raise;
    case Class::FollowElseRaise:
      return cpu ? Class::Raise : Class::Follow;
    case Class::PromoteElseRaise:
      return cpu ? Class::Raise : Class::Promote;
    case Class::LowerElsePromote:
      return cpu ? Class::Promote : Class::Lower;
    default:
      return c;
  }
}

const char* class_name(Class c) {
  static constexpr const char* kNames[] = {"", "lower", "raise", "promote"};
  return kNames[static_cast<int>(c)];
}

}  // namespace amp

bool autocast_enabled(DeviceType t) {
  return amp::on_for(amp::slot_of(t));
}
void set_autocast_enabled(DeviceType t, bool on) {
  amp::switch_on(amp::slot_of(t), on);
}
DType autocast_dtype(DeviceType t) {
  return amp::state().dtype[amp::slot_of(t)];
}
void set_autocast_dtype(DeviceType t, DType dtype) {
  PF_CHECK(dtype == DType::Float16 || dtype == DType::BFloat16, DTypeError, "autocast", "got ",
           dtype, "; expected float16 or bfloat16; pass one of them, or enabled=False");
  amp::state().dtype[amp::slot_of(t)] = dtype;
}
bool autocast_cache_enabled() {
  return amp::state().cache;
}
void set_autocast_cache_enabled(bool on) {
  amp::state().cache = on;
}
void clear_autocast_cache() {
  amp::clear(amp::state());
}

Autocast::Autocast(DeviceType type, std::optional<DType> dtype, bool enabled, bool cache)
    : type_(type),
      enabled_(autocast_enabled(type)),
      cache_(autocast_cache_enabled()),
      dtype_(autocast_dtype(type)) {
  if (dtype) set_autocast_dtype(type, *dtype);
  set_autocast_enabled(type, enabled);
  set_autocast_cache_enabled(cache);
  ++amp::state().depth;
}

Autocast::~Autocast() {
  set_autocast_enabled(type_, enabled_);
  set_autocast_cache_enabled(cache_);
  amp::State& s = amp::state();
  s.dtype[amp::slot_of(type_)] = dtype_;
  if (--s.depth == 0) amp::clear(s);
}

namespace {
std::atomic<MatmulPrecision> g_precision{MatmulPrecision::Highest},
    g_conv_precision{MatmulPrecision::High};
void set(std::atomic<MatmulPrecision>& of, MatmulPrecision p) {
  // What was asked for before keeps its precision.
  if (p != of.load(std::memory_order_relaxed)) flush();
  of.store(p, std::memory_order_relaxed);
}
}  // namespace
MatmulPrecision float32_matmul_precision() {
  return g_precision.load(std::memory_order_relaxed);
}
void set_float32_matmul_precision(MatmulPrecision p) {
  set(g_precision, p);
}
MatmulPrecision float32_conv_precision() {
  return g_conv_precision.load(std::memory_order_relaxed);
}
void set_float32_conv_precision(MatmulPrecision p) {
  set(g_conv_precision, p);
}

}  // namespace pyflame
