#include "engine/programs.h"

#include <algorithm>
#include <list>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "core/backends.h"
#include "core/lock.h"
#include "engine/counters.h"

namespace pyflame::engine {

CompiledProgram::~CompiledProgram() {
  if (kernel) backend_of(device)->program_destroy(device.index, kernel);
}

namespace {

using Program = std::shared_ptr<const CompiledProgram>;

// Users who make ever new structures must not fill memory: of so many (some 5 MB) the one
// goes that was not used for longest, as nearly as a hand that goes around can tell.
constexpr size_t kMaxPrograms = 4096;

struct ProgramCache {
  Mutex mutex;
  std::unordered_multimap<uint64_t, Program> programs;
  std::list<const CompiledProgram*> ring;  // the hand stands at its front

  // Takes memory first: without any left, all stays as it was.
  void add(Program program) {
    std::list<const CompiledProgram*> one{program.get()};
    const uint64_t hash = program->hash;
    programs.emplace(hash, std::move(program));
    ring.splice(ring.end(), one);
    while (programs.size() > kMaxPrograms) {
      const CompiledProgram* oldest = ring.front();
      if (oldest->used.exchange(false, std::memory_order_relaxed)) {
        ring.splice(ring.end(), ring, ring.begin());
        continue;
      }
      ring.pop_front();
      auto [first, last] = programs.equal_range(oldest->hash);
      programs.erase(std::find_if(first, last, [&](auto& e) { return e.second.get() == oldest; }));
    }
  }
};
ProgramCache& program_cache() {
  static auto* c = new ProgramCache;
  return *c;
}

bool same_key(const ProgramKey& a, const ProgramKey& b) {
  return a.size() == b.size() && std::memcmp(&a, &b, a.size()) == 0;
}

}  // namespace

const Program& find_program(RecentPrograms& recent_ones, Device device, const ProgramKey& key,
                            const uint8_t* output_dtypes) {
  uint64_t h = key.hash();
  Program& recent = recent_ones.of[h & 63];
  if (recent && recent->hash == h && same_key(recent->key, key)) {
    recent->touch();
    bump(counters().programs_found);
    return recent;
  }
  ProgramCache& cache = program_cache();
  std::lock_guard lock(cache.mutex);
  auto [first, last] = cache.programs.equal_range(h);
  for (auto it = first; it != last; ++it)
    if (same_key(it->second->key, key)) {
      it->second->touch();
      bump(counters().programs_found);
      return recent = it->second;
    }
  auto made = std::make_shared<CompiledProgram>();
  std::memcpy(static_cast<void*>(&made->key), &key, key.size());
  made->hash = h;
  made->device = device;
  pf_program program{key.nnodes,   key.ninputs,     key.noutputs,
                     key.nscalars, made->key.nodes, made->key.input_dtypes,
                     output_dtypes};
  const pf_backend* b = backend_of(device);
  pf_status status = b->program_create(device.index, &program, &made->kernel);
  if (status != PF_OK) raise_status(b, status, "pointwise group");
  bump(counters().programs_made);
  recent = made;
  cache.add(std::move(made));
  return recent;
}

}  // namespace pyflame::engine
