// Hooks of leaves, and who is told of writes to what replayed calls have read.
#include "engine/region.h"

#include <algorithm>
#include <mutex>

#include "core/lock.h"
#include "engine/capture.h"

namespace pyflame {

bool autograd::has_hooks(const Tensor& leaf) {
  const Meta* meta = leaf->meta;
  if (!meta) return false;
  if (!meta->hooked.empty()) return true;
  const Node* a = meta->accumulator.get();
  if (!a) return false;
  const auto& e = a->extras;  // there, too, where Python has seen the node
  return !a->hooks.empty() ||
         (e && !(e->before.empty() && e->after.empty() && e->accumulated.empty()));
}

const autograd::Node* autograd::maker(const Tensor& t) {
  const Node* made = grad_fn(t).get();  // which `t` keeps
  const engine::Capture* c = engine::capturing();
  return made && c && made->sequence < c->tape_begins() ? nullptr : made;
}

namespace engine {
namespace {

struct Watches {
  Mutex mutex;
  std::vector<Watch*> all;
};
Watches& watches() {
  static auto* w = new Watches;
  return *w;
}

}  // namespace

void Watch::begin(std::span<const Tensor> inputs) {
  Watches& w = watches();
  std::lock_guard lock(w.mutex);
  inputs_.clear();
  for (const Tensor& t : inputs) inputs_.push_back(t->storage.get());
  if (std::find(w.all.begin(), w.all.end(), this) != w.all.end()) return;
  w.all.push_back(this);
  g_watches.store(static_cast<int>(w.all.size()), std::memory_order_relaxed);
}

void Watch::end() noexcept {
  Watches& w = watches();
  std::lock_guard lock(w.mutex);
  w.all.erase(std::remove(w.all.begin(), w.all.end(), this), w.all.end());
  g_watches.store(static_cast<int>(w.all.size()), std::memory_order_relaxed);
}

void Watch::about_to_write(const Storage& s) {
  std::vector<std::function<void()>> told;
  {
    Watches& w = watches();
    std::lock_guard lock(w.mutex);
    for (const Watch* watch : w.all) {
      const auto& in = watch->inputs_;
      if (std::find(in.begin(), in.end(), &s) != in.end() || watch->capture_->only_reads(s))
        told.push_back(watch->told_);
    }
  }
  for (const auto& tell : told) tell();
}

}  // namespace engine
}  // namespace pyflame
