#include "core/kept.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>

#include "core/allocator.h"
#include "core/lock.h"
#include "pyflame/error.h"

namespace pyflame {

// Of one storage, of the version noted; in a list of all of them.
struct KeptForms {
  struct Form {
    KeptKey key;
    uint64_t number;                    // no other form had it
    std::shared_ptr<const char> bytes;  // null: was asked for once
  };
  Storage* owner;
  uint32_t version;
  std::vector<Form> forms;
};

namespace {

// Different calls with the same weights (pictures of several sizes) may want other forms.
constexpr size_t kMostForms = 4;
// What is kept takes at most so much of the memory that is left, so that it is not dropped at once.
constexpr int64_t kPart = 4;

struct Kept {
  Mutex mutex;
  std::vector<KeptForms*> all;
  uint64_t numbers = 0;
  std::atomic<int64_t> made{0};  // forms with bytes
};
Kept& state() {
  static auto* k = new Kept;
  return *k;
}
thread_local Storage* t_storage = nullptr;

// Takes it from its storage and the list; it is freed when the lock has been given back.
std::unique_ptr<KeptForms> take(Kept& k, Storage& s) {
  KeptForms* forms = s.kept.exchange(nullptr, std::memory_order_relaxed);
  if (!forms) return nullptr;
  const auto at = std::find(k.all.begin(), k.all.end(), forms);
  *at = k.all.back();
  k.all.pop_back();
  return std::unique_ptr<KeptForms>(forms);
}

std::shared_ptr<const char> make_form(size_t bytes, const std::function<void(char*)>& make) {
  if (memory_headroom(Device{}) / kPart < static_cast<int64_t>(bytes)) return nullptr;
  Block* block = nullptr;
  try {
    block = allocate(Device{}, nullptr, bytes, {"packed weights"});
  } catch (const Error&) {
    return nullptr;
  }
  Kept& k = state();
  k.made.fetch_add(1, std::memory_order_relaxed);
  std::shared_ptr<const char> r(static_cast<const char*>(block->data), [block](const char*) {
    state().made.fetch_sub(1, std::memory_order_relaxed);
    release(block);
  });
  make(static_cast<char*>(block->data));
  return r;
}

}  // namespace

KeepScope::KeepScope(Storage* s) : before_(std::exchange(t_storage, nullptr)) {
  if (!s) return;
  // With a write recorded, of this group or another, the version is not that of the values.
  if (s->foreign || s->exposed || s->pinned || s->writer.load(std::memory_order_acquire))
    drop_kept(*s);
  else
    t_storage = s;
}
KeepScope::~KeepScope() {
  t_storage = before_;
}

std::shared_ptr<const char> kept(const KeptKey& key, size_t bytes,
                                 const std::function<void(char*)>& make) {
  Storage* s = t_storage;
  if (!s || bytes == 0) return nullptr;
  Kept& k = state();
  std::unique_ptr<KeptForms> stale;
  uint64_t number = 0;
  const auto find = [&]() -> KeptForms::Form* {
    KeptForms* of = s->kept.load(std::memory_order_relaxed);
    if (!of) return nullptr;
    auto& forms = of->forms;
    const auto at = std::find_if(forms.begin(), forms.end(),
                                 [&](const KeptForms::Form& f) { return f.key == key; });
    return at == forms.end() ? nullptr : &*at;
  };
  {
    std::lock_guard lock(k.mutex);
    KeptForms* of = s->kept.load(std::memory_order_relaxed);
    if (of && of->version != s->version) stale = take(k, *s), of = nullptr;
    const KeptForms::Form* f = find();
    if (!f) {
      if (!of) {
        auto fresh = std::make_unique<KeptForms>(KeptForms{s, s->version, {}});
        k.all.push_back(fresh.get());
        s->kept.store(of = fresh.release(), std::memory_order_relaxed);
      }
      if (of->forms.size() < kMostForms) of->forms.push_back({key, ++k.numbers, nullptr});
      return nullptr;
    }
    if (f->bytes) return f->bytes;
    number = f->number;
  }
  std::shared_ptr<const char> made = make_form(bytes, make);
  if (!made) return nullptr;
  std::lock_guard lock(k.mutex);
  // Another thread may have been quicker, or have dropped what was asked for.
  if (KeptForms::Form* f = find(); f && f->number == number) {
    if (!f->bytes) f->bytes = made;
    return f->bytes;
  }
  return made;
}

void detail::drop_forms(Storage& s) noexcept {
  std::unique_ptr<KeptForms> dropped;
  std::lock_guard lock(state().mutex);
  dropped = take(state(), s);
}

void drop_all_kept() noexcept {
  Kept& k = state();
  for (;;) {
    std::unique_ptr<KeptForms> dropped;  // its memory goes outside of the lock
    std::lock_guard lock(k.mutex);
    if (k.all.empty()) return;
    dropped = take(k, *k.all.back()->owner);
  }
}

bool any_kept() {
  return state().made.load(std::memory_order_relaxed) > 0;
}

}  // namespace pyflame
