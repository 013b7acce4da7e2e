// What cuDNN and MIOpen share: what is prepared for each convolution, when it runs, and how a
// failure becomes a reason.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <unordered_map>

#include "gpu/convolution.h"
#include "gpu/device.h"

namespace pyflame::gpu {

// By the library: our own kernels take the convolution.
struct Refused : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Convolutions of one stream. Of the library: `Engine` has a handle (made with the device active),
// its Prepared says what a convolution needs, prepare() and execute() throw Refused. Where
// kAddsToBias, execute() adds to a result that is the bias already.
template <class Engine>
class LibraryConvolutions {
 public:
  explicit LibraryConvolutions(Stream& s) : stream_(s) {}

  bool run(const KernelArgs& args, const Convolution& c, std::string& why) {
    const Ready& r = find(c);
    if (!r.usable) return why = r.why, false;
    void* workspace = r.what.workspace ? args.workspace(r.what.workspace) : nullptr;
    if (Engine::kAddsToBias && c.bias) lay_bias(args, c);
    if (stream_.queue.settled()) {
      args.device.activate();
      execute(c, r, workspace);
      return true;
    }
    // Behind programs that are still compiled. Nobody is there any more to take our own kernel if
    // it fails: that is the stream's failure then, like any launch's.
    stream_.queue.add(nullptr, args.op, [this, &d = args.device, c, &r, workspace] {
      d.activate();
      try {
        execute(c, r, workspace);
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
  const Ready& find(const Convolution& c) {
    const ConvolutionKey key(c);
    std::lock_guard lock(mutex_);
    auto [it, fresh] = ready_.try_emplace(key);
    Ready& r = it->second;
    if (fresh) {
      try {
        engine_.prepare(r.what, key, c);
        r.usable = true;
      } catch (const Refused& e) {
        r.why = e.what();
      }
    }
    return r;
  }
  void execute(const Convolution& c, const Ready& r, void* workspace) {
    std::lock_guard lock(mutex_);  // the handle has one stream and one caller at a time
    engine_.execute(r.what, c, workspace, stream_.handle);
  }

  Stream& stream_;
  Engine engine_;
  std::mutex mutex_;
  std::unordered_map<ConvolutionKey, Ready, ConvolutionHash> ready_;
};

template <class Engine>
bool convolution_by(const KernelArgs& args, const Convolution& c, std::string& why) {
  using Convolutions = LibraryConvolutions<Engine>;
  static std::mutex mutex;
  static auto* all = new std::map<const Stream*, std::unique_ptr<Convolutions>>;
  Stream& s = args.device.stream(args.stream);
  try {
    args.device.activate();
    Convolutions* mine;
    {
      std::lock_guard lock(mutex);
      auto& at = (*all)[&s];
      if (!at) at = std::make_unique<Convolutions>(s);
      mine = at.get();
    }
    return mine->run(args, c, why);
  } catch (const Refused& e) {
    return why = e.what(), false;
  } catch (const Failure& e) {
    if (e.status != PF_OOM) throw;
    return why = e.what(), false;  // ours take less
  }
}

}  // namespace pyflame::gpu
