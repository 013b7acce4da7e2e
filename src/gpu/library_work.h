// Work that a vendor's library does for us (convolutions, attention): what is prepared for each
// shape, when it runs, and how a failure becomes a reason.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "gpu/device.h"
#include "gpu/graph_recorder.h"
#include "gpu/kernel.h"
#include "gpu/library.h"

namespace pyflame::gpu {

// Work of one stream. Of the library: `Engine` has a handle (made with the device active), its Work
// is what is to be done and Key what of it Prepared depends on; prepare() and execute() throw
// Refused. before() launches what has to run first; tell(), where there is one, notes for
// pf.explain who does it.
template <class Engine>
class LibraryWork {
 public:
  using Work = typename Engine::Work;
  explicit LibraryWork(Stream& s) : stream_(s) {}

  bool run(const KernelArgs& args, const Work& w, std::string& why) {
    const Ready& r = find(w);
    if (!r.usable) return why = r.why, false;
    void* workspace = r.what.workspace ? args.workspace(r.what.workspace) : nullptr;
    Engine::before(args, w);
    if constexpr (requires { Engine::tell(args, w, r.what); }) Engine::tell(args, w, r.what);
    Stream& on = args.device.stream(args.stream);  // stream_, or one that records for it
    if (on.queue.settled()) {
      args.device.activate();
      execute(w, r, workspace, on.handle);
      return true;
    }
    // Behind programs that are still compiled. Nobody is there any more to take our own kernel if
    // it fails: that is the stream's failure then, like any launch's.
    stream_.queue.add(nullptr, args.op, [this, &d = args.device, w, &r, workspace] {
      d.activate();
      try {
        execute(w, r, workspace, stream_.handle);
      } catch (const Refused& e) {
        throw Failure(PF_LAUNCH, e.what());
      }
    });
    return true;
  }

 private:
  struct Ready {
    typename Engine::Prepared what;
    bool usable = false;
    std::string why;
  };

  // Stays where it is.
  const Ready& find(const Work& w) {
    const typename Engine::Key key(w);
    std::lock_guard lock(mutex_);
    auto [it, fresh] = ready_.try_emplace(key);
    Ready& r = it->second;
    if (fresh) {
      try {
        engine_.prepare(r.what, key, w);
        r.usable = true;
      } catch (const Refused& e) {
        r.why = e.what();
      }
    }
    return r;
  }
  void execute(const Work& w, const Ready& r, void* workspace, hipStream on) {
    std::lock_guard lock(mutex_);  // the handle has one stream and one caller at a time
    engine_.execute(r.what, w, workspace, on);
  }

  Stream& stream_;
  Engine engine_;
  std::mutex mutex_;
  std::unordered_map<typename Engine::Key, Ready, typename Engine::Hash> ready_;
};

// False where the library does not take it or fails, and then `why` says so.
template <class Engine>
bool work_by(const KernelArgs& args, const typename Engine::Work& w, std::string& why) {
  static std::mutex mutex;
  static auto* all = new std::map<const Stream*, std::unique_ptr<LibraryWork<Engine>>>;
  Stream* s = &args.device.stream(args.stream);
  if (const GraphRecorder* r = s->queue.recorder()) s = &r->target();
  try {
    args.device.activate();
    LibraryWork<Engine>* mine;
    {
      std::lock_guard lock(mutex);
      auto& at = (*all)[s];
      if (!at) at = std::make_unique<LibraryWork<Engine>>(*s);
      mine = at.get();
    }
    return mine->run(args, w, why);
  } catch (const Refused& e) {
    return why = e.what(), false;
  } catch (const Failure& e) {
    if (e.status != PF_OOM) throw;
    return why = e.what(), false;  // ours take less
  }
}

}  // namespace pyflame::gpu
