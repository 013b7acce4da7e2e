// Which thread records into which group, and what makes groups run from outside.
#include <exception>
#include <thread>
#include <utility>
#include <vector>

#include "core/backends.h"
#include "core/lock.h"
#include "core/room.h"
#include "engine/group.h"
#include "engine/takeover.h"

namespace pyflame::engine {
namespace {

Mutex& registry_mutex() {
  static Mutex m;
  return m;
}
std::vector<Group*>& all_groups() {
  static auto* v = new std::vector<Group*>;
  return *v;
}
std::vector<Group*>& spare_groups() {
  static auto* v = new std::vector<Group*>;
  return *v;
}

// A thread borrows its group for life. Groups are never freed: a storage may still name one.
struct ThreadGroup {
  Group* group;
  ThreadGroup() {
    std::lock_guard lock(registry_mutex());
    if (spare_groups().empty()) {
      all_groups().push_back(group = new Group);
    } else {
      group = spare_groups().back();
      spare_groups().pop_back();
    }
  }
  ~ThreadGroup();
};

// What is pending runs on a thread of its own: the scratch memory of this one's kernels, made
// after the group, is gone already.
ThreadGroup::~ThreadGroup() {
  bool waits;
  {
    const AtWork here;                   // a thread that ends has no GIL
    std::lock_guard lock(group->mutex);  // others may be running it
    waits = !group->empty() || bytes_aside(*group) > 0;
  }
  if (waits) {
    try {
      std::thread([g = group] {
        const AtWork here;
        std::lock_guard lock(g->mutex);
        run_group(*g, Flush::ThreadExit);
      }).join();
    } catch (const std::exception&) {
      // No thread to be had: whoever reads the values later runs them.
    }
  }
  const AtWork here;
  {
    std::lock_guard lock(group->mutex);
    group->error = nullptr;
    for (auto& type : group->streams) type.clear();
  }
  detail::t_group = nullptr;
  std::lock_guard lock(registry_mutex());
  spare_groups().push_back(group);
}

}  // namespace

namespace detail {

constinit thread_local Group* t_group = nullptr;

Group& make_group() {
  start_thread();
  static thread_local ThreadGroup owner;
  t_group = owner.group;
  return *t_group;
}

}  // namespace detail

std::vector<Group*> every_group() {
  std::lock_guard lock(registry_mutex());
  return all_groups();
}

Group* new_group() {
  std::lock_guard lock(registry_mutex());
  return all_groups().emplace_back(new Group);
}

Group* many_readers() {
  static Group* const sentinel = new Group;
  return sentinel;
}

void flush_other(Group* g, Flush why) {
  if (g->waits_for_reader) [[unlikely]]
    return make_again(*g, why);
  std::lock_guard lock(g->mutex);
  if (!g->empty()) run_group(*g, why);
}

// Whoever has an address of ours waits for the device, not for us.
void submit(Device d) {
  const pf_backend* b = backend_of(d);
  if (PF_HAS(b, submit)) b->submit(d.index);
}

void flush_all(Flush why) {
  for (Group* g : every_group()) flush_other(g, why);
}

void flush(Flush why) {
  GilScope gil;
  Group& g = current_group();
  std::exception_ptr error;
  {
    std::lock_guard lock(g.mutex);
    if (!g.empty())
      run_group(g, why);
    else
      run_aside(g);
    error = std::exchange(g.error, nullptr);
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace pyflame::engine

namespace pyflame {

void flush() {
  engine::flush(engine::Flush::Explicit);
  // Asked about a stream, a device begins with what it kept back.
  each_active_device([](Device d, const pf_backend* b) {
    int32_t done = 0;
    if (PF_HAS(b, stream_query)) b->stream_query(d.index, nullptr, &done);
  });
}

void synchronize() {
  engine::flush(engine::Flush::Synchronize);
  engine::GilScope gil;
  engine::flush_all(engine::Flush::Synchronize);
  each_active_device([](Device d, const pf_backend*) {
    engine::long_work(int64_t{1} << 40);
    engine::wait_for_device(d);
  });
}

}  // namespace pyflame
