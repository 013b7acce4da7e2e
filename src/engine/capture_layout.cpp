// The memory of a captured step: lifetimes of its inner slots over its launches, and one block for
// all.
#include <algorithm>
#include <limits>
#include <utility>

#include "core/blocks.h"
#include "engine/capture.h"
#include "engine/capture_arena.h"
#include "engine/capture_graph.h"
#include "engine/hazards.h"
#include "pyflame/memory.h"
#include "table/kernels/move.h"

namespace pyflame::engine {
namespace {

using Fate = CapturedLaunch::Fate;

constexpr size_t kAlignGpu = 256, kAlignCpu = 64;
// Kernels read whole vectors, perhaps beyond the end of a tensor.
constexpr size_t kBehind = 256;
// An arena may be larger than what the run took by so much, which is nothing.
constexpr int64_t kSlack = 16 * 1024;
constexpr int kFewerCopies = 4;  // times that it is tried with fewer of them
// Of a device's graph, whose small launches run beside each other: so much in all is used once, so
// that none of them waits for memory.
constexpr size_t kUsedOnce = 2 << 20, kSmallSlot = 256 << 10;
size_t used_once(Device d) {
  return has_graphs(d) ? kUsedOnce : 0;
}

}  // namespace

// Its values are lost: an error for who reads it, until it is written anew.
void Capture::poison(Storage& s) {
  s.poisoned = true;
  s.error = std::current_exception();
}

void Capture::plan() {
  if (!outcome_.planned) {
    if (!pool_) return;  // a trial
    // What is recorded may read gradients where they lie now.
    flush(Flush::Explicit);
    hold_what_lives();
    drop_dead();
    lay_out();
    const int64_t least = outcome_.arena_bytes;
    drop_equal();
    if (outcome_.equal) {
      lay_out();
      // A program that calculates something twice may do so in order not to keep it.
      if (outcome_.arena_bytes > least) give_up(Fate::Equal);
    }
    find_constants();
    // Of copies the largest ones are left out then, which others may not have been beside: a table
    // of embeddings, whose cast ends before gradients of it begin.
    size_t largest = find_copies(std::numeric_limits<size_t>::max());
    lay_out();
    for (int tries = 0; outcome_.copied && takes_more_than_the_run(); ++tries) {
      give_up(Fate::Constant);
      find_constants();
      if (tries < kFewerCopies) largest = find_copies(largest);
      lay_out();
    }
    if (takes_more_than_the_run()) {
      give_up(Fate::Constant);
      lay_out();
    }
    outcome_.planned = true;
    for (Slot& s : slots_) {
      if (s.kind != Kind::Held) continue;
      s.window = fits_in_arena(s);
      if (!s.window) move_out_of_pool(s);
    }
  }
  if (!arena_) take_arena();
}

// They would keep what the run gave back.
bool Capture::takes_more_than_the_run() const {
  return outcome_.constant &&
         outcome_.arena_bytes + outcome_.held_bytes >
             outcome_.pool_bytes + kSlack + static_cast<int64_t>(used_once(device_));
}

// Of what somebody holds: each run writes it before it reads it, so until then others may lie
// there.
bool Capture::fits_in_arena(const Slot& s) const {
  return s.kind == Kind::Held && !s.fixed && stages_.size() == 1 && s.nbytes && s.storage->block &&
         s.storage->block->segment->pool == pool_ && !s.storage->foreign && !s.storage->exposed;
}

// Finds an offset in the arena for each inner slot that a launch uses.
void Capture::lay_out() {
  const auto align = device_.is_cpu() ? kAlignCpu : kAlignGpu;
  const int end = static_cast<int>(launches_.size());
  struct Use {
    int first = -1, last = -1;
    bool constant = false;
    int with = -1;  // the slot whose memory it takes over
  };
  std::vector<Use> uses(slots_.size());
  const auto movable = [&](int slot) {
    const Slot& s = slots_[static_cast<size_t>(slot)];
    return (s.kind == Kind::Inner && !s.fixed) || fits_in_arena(s);
  };
  for (int i = 0; i < end; ++i) {
    const CapturedLaunch& l = *launches_[static_cast<size_t>(i)];
    if (!l.runs()) continue;
    for (const Access& a : l.accesses) {
      if (!movable(a.slot)) continue;
      Use& u = uses[static_cast<size_t>(a.slot)];
      if (u.first < 0) u.first = i;
      u.last = std::max(u.last, i);
      u.constant |= a.writes && l.fate == Fate::Constant;
      if (slots_[static_cast<size_t>(a.slot)].kind == Kind::Held) u.last = end;
    }
  }
  for (const Stage& stage : stages_)
    for (size_t n = 0; n + 1 < stage.parts.size(); ++n) {
      const int at = static_cast<int>(stage.parts[n].last);
      for (size_t k = 0; k < slots_.size(); ++k)
        if (uses[k].first >= 0 && uses[k].first < at && slots_[k].died_at >= at)
          uses[k].last = std::max(uses[k].last, at - 1);
    }
  std::vector<bool> once(slots_.size());
  size_t left = used_once(device_);
  for (size_t k = 0; k < slots_.size(); ++k) {
    const size_t bytes = slots_[k].nbytes;
    if (uses[k].first < 0 || bytes > std::min(left, kSmallSlot)) continue;
    once[k] = true;
    left -= bytes;
  }
  // What took over the memory of an input still does, where that ends here.
  for (int i = 0; i < end; ++i) {
    const CapturedLaunch& l = *launches_[static_cast<size_t>(i)];
    if (l.fate != Fate::Runs) continue;
    for (const Access& to : l.accesses) {
      if (!to.writes || to.reads || !movable(to.slot)) continue;
      Use& u = uses[static_cast<size_t>(to.slot)];
      const Slot& s = slots_[static_cast<size_t>(to.slot)];
      if (u.first != i || u.with >= 0 || once[static_cast<size_t>(to.slot)]) continue;
      for (const Access& from : l.accesses) {
        if (from.writes || !movable(from.slot) || from.slot == to.slot) continue;
        if (from.slot != from.noted) continue;
        const Use& v = uses[static_cast<size_t>(from.slot)];
        const Slot& t = slots_[static_cast<size_t>(from.slot)];
        if (v.last == i && !v.constant && t.base == s.base && t.nbytes == s.nbytes &&
            to.offset == from.offset) {
          // Two that would wait for each other: two results in the memory of one.
          if (v.with == to.slot) continue;
          u.with = from.slot;
          break;
        }
      }
    }
  }
  std::vector<Lifetime> all;
  std::vector<int> of(slots_.size(), -1);  // index in `all`
  std::vector<int> order;
  for (size_t k = 0; k < slots_.size(); ++k)
    if (uses[k].first >= 0) order.push_back(static_cast<int>(k));
  for (int k : order) {
    const Use& u = uses[static_cast<size_t>(k)];
    int owner = k;  // of the memory: the first of those that hand it on
    while (uses[static_cast<size_t>(owner)].with >= 0)
      owner = uses[static_cast<size_t>(owner)].with;
    int& at = of[static_cast<size_t>(owner)];
    if (at < 0) {
      at = static_cast<int>(all.size());
      all.push_back({slots_[static_cast<size_t>(owner)].nbytes, u.first, u.last});
    }
    of[static_cast<size_t>(k)] = at;
    Lifetime& l = all[static_cast<size_t>(at)];
    const bool always = u.constant || once[static_cast<size_t>(k)];
    l.first = always ? 0 : std::min(l.first, u.first);
    l.last = always ? end : std::max(l.last, u.last);
  }
  const size_t size = pack(all, align);
  outcome_.arena_bytes = size ? static_cast<int64_t>(size + kBehind) : 0;
  outcome_.bound_bytes = static_cast<int64_t>(most_at_once(all, align));
  outcome_.held_bytes = 0;
  for (const Slot& s : slots_)
    if ((s.kind == Kind::Held || s.fixed) && !fits_in_arena(s))
      outcome_.held_bytes += static_cast<int64_t>(s.nbytes);
  in_arena_.assign(slots_.size(), -1);
  outcome_.pieces.clear();
  std::vector<const char*> makers(slots_.size(), "");
  std::vector<int32_t> places(slots_.size());
  for (const auto& l : launches_)
    for (const Access& a : l->accesses)
      if (l->runs() && a.writes && !*makers[static_cast<size_t>(a.slot)]) {
        makers[static_cast<size_t>(a.slot)] = l->name();
        places[static_cast<size_t>(a.slot)] = l->place;
      }
  for (int k : order) {
    const auto i = static_cast<size_t>(k);
    const Lifetime& where = all[static_cast<size_t>(of[i])];
    in_arena_[i] = static_cast<std::ptrdiff_t>(where.offset);
    const std::string& place = text_of_place(places[i]);
    outcome_.pieces.push_back({where.offset, slots_[i].nbytes, uses[i].constant ? 0 : uses[i].first,
                               uses[i].constant ? end - 1 : uses[i].last, uses[i].constant,
                               makers[i] + (place.empty() ? "" : " at " + place)});
  }
}

// What somebody holds gets memory of its own: in the pool it may lie in a segment that is empty but
// for it.
void Capture::move_out_of_pool(Slot& slot) {
  Storage& s = *slot.storage;
  if (!s.block || s.block->segment->pool != pool_ || s.foreign || s.exposed || !s.nbytes) return;
  flush_storage(s, Flush::Explicit);
  settle_write(s, nullptr, "captured step");
  const auto bytes = static_cast<int64_t>(s.nbytes);
  try {
    const Tensor fresh = make_tensor_at({bytes}, DType::UInt8, device_);
    const Tensor old = make_view(fresh, fresh->shape, fresh->strides, 0);
    old->storage = StorageHandle::share(&s);
    call<kernels::Copy>({fresh, old}, {.takes = Takes::All});
    flush(Flush::Explicit);
    std::swap(s.data, fresh->storage->data);
    std::swap(s.block, fresh->storage->block);
  } catch (const OutOfMemoryError&) {
    // It stays.
  }
}

// Of the pool: nothing of it may be used for anything else.
bool Capture::any_fixed() const {
  return std::any_of(slots_.begin(), slots_.end(),
                     [](const Slot& s) { return s.kind == Kind::Inner && s.fixed; });
}

void Capture::take_arena() {
  for (Slot& s : slots_)
    if (s.window) {
      flush_storage(*s.storage, Flush::Explicit);
      if (s.storage->block) release(std::exchange(s.storage->block, nullptr));
      s.storage->data = nullptr;
    }
  if (pool_ && !any_fixed()) drop_memory_pool(device_, std::exchange(pool_, 0));
  Ref<Storage> arena =
      Ref<Storage>::adopt(Storage::create(device_, static_cast<size_t>(outcome_.arena_bytes)));
  const Dims shape{outcome_.arena_bytes};
  try {
    ensure_memory(*arena, current_group().stream(device_),
                  {"memory of a captured step", DType::UInt8, &shape});
  } catch (...) {
    for (Slot& s : slots_)
      if (s.window) poison(*s.storage);
    throw;
  }
  char* base = static_cast<char*>(arena->data);
  for (const auto& l : launches_)
    for (const Access& a : l->accesses) {
      const std::ptrdiff_t at = in_arena_[static_cast<size_t>(a.slot)];
      if (l->runs() && at >= 0) *a.where = base + at + a.offset;
    }
  std::fill(changed_.begin(), changed_.end(), uint8_t{1});
  for (size_t i = 0; i < slots_.size(); ++i) {
    Slot& s = slots_[i];
    if (!s.window || s.storage->data) continue;
    s.base = s.storage->data = base + in_arena_[i];
    // The arena stays while somebody has it, and then for what streams were told meanwhile.
    s.storage->on_free = new std::function<void()>([arena] {
      each_stream(arena->device, [&](StreamState* user) {
        if (user != arena->block->stream) add_user(*arena->block, user);
      });
    });
  }
  arena_ = std::move(arena);
}

}  // namespace pyflame::engine
