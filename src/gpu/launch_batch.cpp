#include "gpu/launch_batch.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "gpu/device.h"
#include "gpu/graph.h"

namespace pyflame::gpu {

// By length, of kernels that all begin early or not: two of each, so that one is free while the
// other runs.
struct LaunchBatch::Graphs {
  struct Pair {
    std::unique_ptr<DriverGraph> chains[2];
    int next = 0;
  };
  Pair of_length[2][kMost + 1];
};

LaunchBatch::LaunchBatch(const Device& device, const Stream& stream)
    : device_(device), stream_(stream), graphs_(std::make_unique<Graphs>()) {}

bool LaunchBatch::available() {
  static const bool yes = DriverGraph::available("PYFLAME_LAUNCH_BATCHES", !kAmd);
  return yes;
}

void LaunchBatch::run(const char*& op) {
  const int n = std::exchange(count_, 0);
  if (n == target_) target_ = std::min(2 * target_, kMost);
  bytes_used_ = 0;
  args_used_ = 0;
  device_.activate();
  // What graphs cost is more than one or two launches do.
  constexpr int kFew = 2;
  if (n <= kFew) {
    for (int i = 0; i < n; ++i) {
      const Entry& e = entries_[i];
      op = e.op;
      device_.launch_now(e.function, stream_, e.grid, e.block, e.shared, args_ + e.first);
    }
    return;
  }
  const bool early =
      std::all_of(entries_, entries_ + n, [](const Entry& e) { return e.function->early; });
  Graphs::Pair& pair = graphs_->of_length[early][n];
  std::unique_ptr<DriverGraph>& chain = pair.chains[pair.next ^= 1];
  if (!chain) chain = std::make_unique<DriverGraph>(device_);
  try {
    const bool made = chain->made();
    for (int i = 0; i < n; ++i) {
      const Entry& e = entries_[i];
      op = e.op;
      const KernelLaunch launch{e.function, e.grid, e.block, e.shared, args_ + e.first};
      if (made)
        chain->set(static_cast<size_t>(i), launch);
      else if (const size_t last = chain->size() - 1; chain->size())
        chain->add(launch, {&last, 1});
      else
        chain->add(launch, {});
    }
    if (!made) chain->make();
    chain->launch(stream_);
  } catch (...) {
    chain.reset();
    throw;
  }
}

LaunchBatch::~LaunchBatch() = default;

bool LaunchBatch::add(Function f, Grid grid, Grid block, size_t shared, void** args,
                      const uint32_t* sizes, int nargs, const char* op) {
  size_t bytes = bytes_used_;
  for (int i = 0; i < nargs; ++i) bytes += (sizes[i] + size_t{15}) / 16 * 16;
  if (count_ == kMost || bytes > kBytes || args_used_ + nargs + 1 > kMostArgs) return false;
  entries_[count_++] = {f, grid, block, shared, op, args_used_};
  for (int i = 0; i < nargs; ++i) {
    std::memcpy(bytes_ + bytes_used_, args[i], sizes[i]);
    args_[args_used_++] = bytes_ + bytes_used_;
    bytes_used_ += (sizes[i] + size_t{15}) / 16 * 16;
  }
  args_[args_used_++] = nullptr;
  return true;
}

}  // namespace pyflame::gpu
