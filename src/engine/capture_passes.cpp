// What a whole captured step shows and a window does not: launches whose results nobody reads,
// launches that make what another has made, and launches that depend on nothing which changes.
#include <algorithm>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/capture.h"
#include "engine/capture_ends.h"

namespace pyflame::engine {
namespace {

using Fate = CapturedLaunch::Fate;

template <class T>
void put(std::string& s, const T& value) {
  // NOLINTNEXTLINE(bugprone-sizeof-expression): of pointers themselves, too
  s.append(reinterpret_cast<const char*>(&value), sizeof(T));
}
template <class T>
void put_all(std::string& s, const std::vector<T>& values) {
  put(s, values.size());
  for (const T& v : values) put(s, v);
}

void put_program(std::string& s, const CapturedProgram& p) {
  put(s, p.program != nullptr);
  if (!p.program) return;
  s.append(reinterpret_cast<const char*>(&p.program->key), p.program->key.size());
  put_all(s, p.dims);
  put_all(s, p.scalars);
  put(s, p.launch.ndim);
  for (const auto* list : {&p.in, &p.out})
    for (const pf_operand& o : *list) {
      put(s, o.contiguous);
      put(s, o.data == PF_NO_MEMORY);
    }
}

// It may tell the program that an index is wrong, at each run.
bool checks(const CapturedLaunch& l) {
  return l.kernel && (l.kernel->indices != kernels::Indices::None ||
                      l.options.indices != kernels::Indices::None);
}

}  // namespace

std::string CapturedLaunch::signature() const {
  std::string s;
  put(s, kernel);
  put_program(s, before);
  put_program(s, after);
  put_all(s, attrs);
  put_all(s, bytes);
  put(s, options.inplace);
  put(s, together);
  put_all(s, feeds);
  put_all(s, takes);
  if (together) {
    put(s, group.unread);
    put(s, group.without);
    put(s, group.joins);
  }
  for (const pf_tensor& t : tensors) {
    put(s, t.data == nullptr);
    put(s, t.data == PF_NO_MEMORY);
    put(s, t.dtype);
    put(s, t.ndim);
    s.append(reinterpret_cast<const char*>(t.shape), sizeof *t.shape * static_cast<size_t>(t.ndim));
    s.append(reinterpret_cast<const char*>(t.strides),
             sizeof *t.strides * static_cast<size_t>(t.ndim));
  }
  return s;
}

// Inner slots that somebody still has are looked up from now on, as tensors from outside are.
void Capture::hold_what_lives() {
  {
    std::lock_guard lock(ends().mutex);
    for (Slot& s : slots_) {
      if (s.kind != Kind::Inner || !s.alive) continue;
      // Unless another thread has just let it go.
      uint32_t refs = s.alive->refs.load(std::memory_order_relaxed);
      while (refs && !s.alive->refs.compare_exchange_weak(refs, refs + 1)) {
      }
      if (!refs) continue;
      s.storage = Ref<Storage>::adopt(s.alive);
      s.kind = Kind::Held;
    }
  }
  listen(false);
  for (Slot& s : slots_) {
    s.alive = nullptr;
    if (s.kind == Kind::Held) s.version = seen_version(*s.storage);
    // What the call that was captured made and was given: it has that, or a copy.
    if (s.kind != Kind::Input && s.kind != Kind::Output) continue;
    s.holder = {};
    s.storage.reset();
  }
}

// What is read before anything was seen to write it lies where it lies.
void Capture::find_fixed() {
  std::vector<bool> seen(slots_.size());
  for (const auto& l : launches_) {
    for (const Access& a : l->accesses)
      if (a.writes) seen[static_cast<size_t>(a.slot)] = true;
    for (const Access& a : l->accesses) {
      Slot& s = slots_[static_cast<size_t>(a.slot)];
      if (a.reads && !a.writes && s.kind == Kind::Inner && !seen[static_cast<size_t>(a.slot)])
        s.fixed = true;
    }
  }
}

// Whether somebody may read it when all has run.
bool Capture::survives(const Slot& s) const {
  return s.kind != Kind::Inner || s.fixed;
}

void Capture::drop_dead() {
  std::vector<bool> wanted(slots_.size());
  for (size_t i = 0; i < slots_.size(); ++i) wanted[i] = survives(slots_[i]);
  std::vector<size_t> pauses;
  for (const Stage& stage : stages_)
    for (size_t i = 0; i + 1 < stage.parts.size(); ++i) pauses.push_back(stage.parts[i].last);
  for (size_t i = launches_.size(); i-- > 0;) {
    for (; !pauses.empty() && pauses.back() > i; pauses.pop_back()) {
      // What the caller does between two parts may read what was there then.
      const auto at = static_cast<int>(pauses.back());
      for (size_t k = 0; k < slots_.size(); ++k)
        if (slots_[k].kind == Kind::Inner && slots_[k].died_at >= at) wanted[k] = true;
    }
    CapturedLaunch& l = *launches_[i];
    if (!l.runs()) continue;
    bool read = l.live || l.accesses.empty() || checks(l), writes = false;
    for (const Access& a : l.accesses) {
      writes |= a.writes;
      read |= a.writes && wanted[static_cast<size_t>(a.slot)];
    }
    if (!read && writes) {
      l.fate = Fate::Dead;
      ++outcome_.dead;
      continue;
    }
    for (const Access& a : l.accesses)
      if (a.whole && !a.reads)
        wanted[static_cast<size_t>(a.slot)] = survives(slots_[static_cast<size_t>(a.slot)]);
    for (const Access& a : l.accesses)
      if (a.reads) wanted[static_cast<size_t>(a.slot)] = true;
  }
}

std::vector<int> Capture::writers() const {
  std::vector<int> n(slots_.size());
  for (const auto& l : launches_)
    if (l->runs())
      for (const Access& a : l->accesses) n[static_cast<size_t>(a.slot)] += a.writes;
  return n;
}

bool Capture::sole(const Access& a, std::span<const int> writers) const {
  const auto i = static_cast<size_t>(a.slot);
  return a.writes && !a.reads && a.whole && slots_[i].kind == Kind::Inner && !slots_[i].fixed &&
         writers[i] == 1;
}

// The same launch over the same values: of two that nobody changes afterwards the first serves.
void Capture::drop_equal() {
  const std::vector<int> writes = writers();
  std::vector<int> same(slots_.size());  // the slot that a slot's readers read
  for (size_t i = 0; i < same.size(); ++i) same[i] = static_cast<int>(i);
  std::vector<uint32_t> version(slots_.size());
  std::unordered_map<std::string, const CapturedLaunch*> known;
  size_t next = 0;
  for (const Stage& stage : stages_)
    for (const Part& part : stage.parts) {
      // Between parts others may write what does not only belong to us.
      for (size_t i = 0; i < slots_.size(); ++i) version[i] += slots_[i].kind != Kind::Inner;
      for (next = part.first; next < part.last; ++next) {
        CapturedLaunch& l = *launches_[next];
        if (!l.runs()) continue;
        bool fits = !l.live && !l.accesses.empty();
        for (Access& a : l.accesses) {
          a.slot = same[static_cast<size_t>(a.slot)];
          if (a.writes) fits &= sole(a, writes);
        }
        std::string key;
        if (fits) {
          key = l.signature();
          for (const Access& a : l.accesses) {
            put(key, a.offset);
            put(key, a.writes);
            if (a.writes) continue;
            put(key, a.slot);
            put(key, version[static_cast<size_t>(a.slot)]);
          }
        }
        for (const Access& a : l.accesses)
          if (a.writes) ++version[static_cast<size_t>(a.slot)];
        if (!fits) continue;
        const auto [at, fresh] = known.try_emplace(std::move(key), &l);
        if (fresh) continue;
        const CapturedLaunch& first = *at->second;
        for (size_t k = 0; k < l.accesses.size(); ++k)
          if (l.accesses[k].writes)
            same[static_cast<size_t>(l.accesses[k].slot)] = first.accesses[k].slot;
        l.fate = Fate::Equal;
        ++outcome_.equal;
      }
    }
}

bool Capture::only_ours(const Storage& s) {
  return !s.foreign && !s.exposed && !s.pinned;
}

// Launches over tensors from outside that nobody has written since they were captured, which takes
// two calls that a training step would have changed its weights in.
void Capture::find_constants() {
  const std::vector<int> writes = writers();
  std::vector<bool> steady(slots_.size());
  std::vector<std::vector<int>> from(slots_.size());  // roots
  for (size_t i = 0; i < slots_.size(); ++i) {
    const Slot& s = slots_[i];
    steady[i] = s.kind == Kind::Outer && !writes[i] && only_ours(*s.storage) &&
                s.storage->version == s.at_end;
    if (steady[i]) from[i] = {static_cast<int>(i)};
  }
  for (Stage& stage : stages_)
    for (Part& part : stage.parts) {
      std::vector<int> roots;
      for (size_t n = part.first; n < part.last; ++n) {
        CapturedLaunch& l = *launches_[n];
        if (!l.runs() || checks(l) || (l.kernel && l.kernel->random)) continue;
        bool fits = !l.live && !l.accesses.empty();
        std::vector<int> its;
        for (const Access& a : l.accesses) {
          const auto i = static_cast<size_t>(a.slot);
          if (a.writes) {
            fits &= sole(a, writes);
          } else {
            fits &= steady[i];
            if (fits) its.insert(its.end(), from[i].begin(), from[i].end());
          }
        }
        if (!fits) continue;
        std::sort(its.begin(), its.end());
        its.erase(std::unique(its.begin(), its.end()), its.end());
        l.fate = Fate::Constant;
        ++outcome_.constant;
        for (const Access& a : l.accesses)
          if (a.writes) {
            steady[static_cast<size_t>(a.slot)] = true;
            from[static_cast<size_t>(a.slot)] = its;
          }
        roots.insert(roots.end(), its.begin(), its.end());
      }
      std::sort(roots.begin(), roots.end());
      roots.erase(std::unique(roots.begin(), roots.end()), roots.end());
      for (int r : roots) part.roots.push_back({r, 0, nullptr});
    }
}

// Takes back what a pass has found, and what memory it wanted.
void Capture::give_up(Fate what) {
  for (const auto& l : launches_) {
    if (l->fate == what) l->fate = Fate::Runs;
    if (what == Fate::Equal)
      for (Access& a : l->accesses) a.slot = a.noted;
  }
  if (what == Fate::Constant) {
    forget_copies();
    for (Stage& stage : stages_)
      for (Part& part : stage.parts) part.roots.clear();
  }
  (what == Fate::Constant ? outcome_.constant : outcome_.equal) = 0;
}

// When all of a stage has run: steps have written copies of what they wrote, too, unless one was
// another (`lost`).
void Capture::note_copied(bool lost) {
  if (!outcome_.copied) return;
  for (Stage& stage : stages_)
    for (Part& part : stage.parts)
      for (Part::Root& r : part.roots) {
        const Slot& s = slots_[static_cast<size_t>(r.slot)];
        if (!s.written) continue;
        part.stale |= lost;
        r.version = s.storage->version;
      }
}

// Whether the constant launches of a part have to run; notes what they will have run on.
bool Capture::constants_changed(Part& part) {
  bool changed = std::exchange(part.stale, false);
  for (Part::Root& r : part.roots) {
    const Storage& s = *slots_[static_cast<size_t>(r.slot)].storage;
    changed |= r.version != s.version || r.data != s.data || !only_ours(s);
    r.version = s.version;
    r.data = s.data;
  }
  if (!changed) return false;
  // What later ones have made of these holds no more, even where their own tensors are as they
  // were.
  bool later = false;
  for (Stage& stage : stages_)
    for (Part& p : stage.parts) {
      p.stale |= later;
      later |= &p == &part;
    }
  return true;
}

}  // namespace pyflame::engine
