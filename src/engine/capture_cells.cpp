// Cells of a capture: launches whose numbers are the program's, and told anew before each run.
//
// The step of an optimizer counts, and reads rates that schedules change. Its kernels stand in the
// capture like others; before each run the step is called once more, and what it would launch is
// compared with what was captured. Tensors as they were: then its numbers are taken over. Others
// (a state that was loaded): then the part is run one by one, with these calls in their place.
#include <algorithm>
#include <cstring>
#include <mutex>

#include "engine/capture.h"
#include "engine/capture_ends.h"
#include "table/kernel.h"

namespace pyflame::engine {

void Capture::open_cell() {
  flush(Flush::Explicit);
  // What a step makes, it keeps.
  if (pool_ || borrowed_) use_memory_pool(device_, route_before_);
  cells_.emplace_back().first = launches_.size();
  in_cell_ = true;
}

bool Capture::close_cell() {
  flush(Flush::Explicit);
  in_cell_ = false;
  Cell& c = cells_.back();
  c.last = launches_.size();
  const bool kept = std::all_of(
      launches_.begin() + static_cast<std::ptrdiff_t>(c.first), launches_.end(), [](const auto& l) {
        return l->kernel && l->kernel->anchor == kernels::Anchor::MultiTensor && !l->together;
      });
  if (kept) {
    for (size_t i = c.first; i < c.last; ++i) launches_[i]->live = true;
    if (pool_ || borrowed_) use_memory_pool(device_, pool_ ? pool_ : borrowed_);
    return true;
  }
  // It was between two parts, then.
  stages_.back().parts.back().last = c.first;
  {
    std::lock_guard lock(ends().mutex);
    launches_.resize(c.first);
  }
  for (Slot& s : slots_)
    std::erase_if(s.sites, [&](const Site& site) { return site.launch >= c.first; });
  std::erase_if(random_, [&](uint32_t i) { return i >= c.first; });
  cells_.pop_back();
  resume();
  return false;
}

void Capture::feed(int cell) {
  flush(Flush::Explicit);
  Cell& c = cells_.at(static_cast<size_t>(cell));
  c.next = c.first;
  c.differs = false;
  c.instead.clear();
  feeding_ = cell;
  current_group().capture = this;
}

void Capture::end_feed() {
  flush(Flush::Explicit);
  current_group().capture = nullptr;
  Cell& c = cells_[static_cast<size_t>(feeding_)];
  feeding_ = -1;
  if (c.next != c.last) c.differs = true;
  differed_ |= c.differs;
}

bool Capture::takes(const Kernel& k, std::span<const pf_tensor> tensors,
                    std::span<const Ref<Storage>> storages, std::span<const pf_scalar> attrs,
                    const CallOptions& options) {
  if (feeding_ < 0 || k.anchor != kernels::Anchor::MultiTensor) return false;
  Cell& c = cells_[static_cast<size_t>(feeding_)];
  if (!c.differs && c.next < c.last && same_call(c.next, k, tensors, storages, attrs.size())) {
    CapturedLaunch& l = *launches_[c.next];
    if (std::memcmp(l.attrs.data(), attrs.data(), attrs.size_bytes()) != 0) {
      l.attrs.assign(attrs.begin(), attrs.end());
      changed_[c.next] = 1;
    }
    ++c.next;
    return true;
  }
  c.differs = true;
  c.instead.push_back({&k,
                       {tensors.begin(), tensors.end()},
                       {storages.begin(), storages.end()},
                       {attrs.begin(), attrs.end()},
                       options});
  return true;
}

// Whether a call is of the captured kernel and tensors.
bool Capture::same_call(size_t launch, const Kernel& k, std::span<const pf_tensor> tensors,
                        std::span<const Ref<Storage>> storages, size_t numbers) const {
  const CapturedLaunch& l = *launches_[launch];
  if (l.kernel != &k || l.noted_tensors() != tensors.size() || l.attrs.size() != numbers)
    return false;
  size_t j = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const pf_tensor &a = l.noted(i), &b = tensors[i];
    if (!a.data != !storages[i]) return false;
    if (!a.data) continue;
    const uint32_t serial = l.serials[j++];
    if (storages[i]->serial.load(std::memory_order_relaxed) != serial) return false;
    const Slot& slot = slots_[static_cast<size_t>(by_serial_.at(serial))];
    const auto at = [](const void* p, const void* base) {
      return static_cast<const char*>(p) - static_cast<const char*>(base);
    };
    if (a.ndim != b.ndim || a.dtype != b.dtype || !std::equal(a.shape, a.shape + a.ndim, b.shape) ||
        !std::equal(a.strides, a.strides + a.ndim, b.strides) ||
        at(a.data, slot.base) != at(b.data, storages[i]->data))
      return false;
  }
  return true;
}

size_t Capture::cell_launches(int cell) const {
  const Cell& c = cells_.at(static_cast<size_t>(cell));
  return c.last - c.first;
}

void Capture::tell(int cell, size_t launch, int number, Scalar value) {
  const size_t i = cells_.at(static_cast<size_t>(cell)).first + launch;
  pf_scalar& to = launches_.at(i)->attrs.at(static_cast<size_t>(number));
  const pf_scalar now = to_kernel_scalar(value);
  if (std::memcmp(&to, &now, sizeof to) == 0) return;
  to = now;
  changed_[i] = 1;
}

bool Capture::cells_differed() {
  return std::exchange(differed_, false);
}

void Capture::launch_one_by_one(const Part& p, StreamState* stream) {
  size_t i = p.first;
  for (Cell& c : cells_) {
    if (!c.differs || c.first < p.first || c.last > p.last) continue;
    for (; i < c.next; ++i) launch_noted(i, stream);
    for (const Call& call : c.instead)
      run_kernel(*call.kernel, device_, stream, call.tensors, call.attrs, call.options);
    i = c.last;
    c.differs = false;
    c.instead.clear();
  }
  for (; i < p.last; ++i) launch_noted(i, stream);
}

bool Capture::cells_differ(const Part& p) const {
  return std::any_of(cells_.begin(), cells_.end(), [&](const Cell& c) {
    return c.differs && c.first >= p.first && c.last <= p.last;
  });
}

}  // namespace pyflame::engine
