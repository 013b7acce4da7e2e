// The launches of a part of a capture as one launch of the device, where its backend can
// (pf_backend::graph_begin and what follows it).
//
// A graph is made at the second run of a part: in the first, launchers may still make what they
// keep (plans of libraries). Then only launches whose addresses or numbers are others than in the
// run before are recorded again. Small launches run beside those that they need not wait for
// (capture_order.h), large ones one behind the other: each fills the device. What cannot be
// recorded is launched as it was captured, one by one, and the reason kept.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "engine/capture_launch.h"
#include "pyflame/backend.h"
#include "pyflame/device.h"

namespace pyflame {
struct StreamState;
}

namespace pyflame::engine {

bool has_graphs(Device);

class PartGraph {
 public:
  explicit PartGraph(Device d) : device_(d) {}
  ~PartGraph() { drop(); }
  PartGraph(const PartGraph&) = delete;
  PartGraph& operator=(const PartGraph&) = delete;

  // Runs a part, whose launches launch() makes; `changed`: since the graph was made or brought up
  // to date, which clears it. False where nothing has run: then the caller launches one by one.
  // Throws DeviceError.
  using Launches = std::span<const std::unique_ptr<CapturedLaunch>>;
  using Launch = std::function<void(CapturedLaunch&, StreamState*)>;
  bool run(StreamState* on, Launches, std::span<uint8_t> changed, const Launch& launch);

  int nodes() const { return graph_ ? nodes_ : 0; }
  const std::string& why_not() const { return why_; }

 private:
  void make(StreamState* on, Launches, std::span<uint8_t> changed, const Launch&);
  void bring_up_to_date(Launches, std::span<uint8_t> changed, const Launch&);
  void must(pf_status) const;
  void drop() noexcept;
  template <class F>
  bool attempt(F&&);

  Device device_;
  pf_graph graph_ = nullptr;
  pf_stream recording_ = nullptr;
  StreamState* on_ = nullptr;
  int32_t nodes_ = 0;
  int runs_ = 0, made_ = 0;
  std::string why_;
};

}  // namespace pyflame::engine
