#include "gpu/kernel.h"

#include <climits>
#include <string_view>
#include <unordered_map>

#include "gpu/device.h"
#include "gpu/device_text.h"
#include "gpu/graph_recorder.h"
#include "gpu/host.h"

namespace pyflame::gpu {
namespace {

std::unordered_map<std::string_view, KernelEntry>& kernels_known() {
  static auto* m = new std::unordered_map<std::string_view, KernelEntry>;
  return *m;
}

// Of a file, each with a blank before and behind it.
std::unordered_multimap<std::string, std::string>& together() {
  static auto* m = new std::unordered_multimap<std::string, std::string>;
  return *m;
}

}  // namespace

RegisterTogether::RegisterTogether(const char* file, const char* entries) {
  together().emplace(file, " " + std::string(entries) + " ");
}
std::string entries_with(const std::string& file, const std::string& entry) {
  const auto [begin, end] = together().equal_range(file);
  for (auto it = begin; it != end; ++it)
    if (it->second.find(" " + entry + " ") != std::string::npos)
      return it->second.substr(1, it->second.size() - 2);
  return entry;
}

RegisterKernel::RegisterKernel(const kernels::KernelInfo& info, KernelFn fn, bool over_rows,
                               bool (*usable)()) {
  const int outputs =
      info.anchor == kernels::Anchor::MultiTensor ? INT_MAX : info.outputs;  // of lists all
  kernels_known().emplace(info.name, KernelEntry{fn, over_rows, usable, outputs});
}

const KernelEntry* find_kernel(const char* name) {
  auto it = kernels_known().find(name);
  if (it == kernels_known().end() || (it->second.usable && !it->second.usable())) return nullptr;
  return &it->second;
}

// ---- options -----------------------------------------------------------------------------------

Defines Defines::type(const char* n, DType t) && {
  return std::move(*this).text(n, gpu::device_storage(t));
}
Defines Defines::add(Option o) && {
  if (count_ == kMost) throw std::logic_error("more than 16 options of a kernel");
  options_[count_++] = o;
  return *this;
}
std::string Defines::str() const {
  std::string s;
  for (int i = 0; i < count_; ++i) {
    const Option& o = options_[i];
    s.append("-D").append(o.name).append(1, '=');
    s.append(o.text ? o.text : std::to_string(o.value)).append(1, ' ');
  }
  return s;
}

// ---- what launchers call -----------------------------------------------------------------------

const Traits& KernelArgs::traits() const {
  return device.traits;
}
Function KernelArgs::compile(const char* file, const Defines& defines, const char* entry) const {
  return device.find(file, defines, entry);
}
Function KernelArgs::compile(const char* file, const Defines& defines, const char* entry,
                             const Before& before) const {
  return device.find_behind(before, file, defines, entry);
}
Joined KernelArgs::join(const char* file, const Defines& defines, const char* entry,
                        const JoinedRows& rows) const {
  if (around) return join_programs(device, *around, file, defines, entry, rows);
  return {compile(file, defines, entry)};
}
int64_t KernelArgs::row_bytes(const JoinedRows& rows) const {
  if (const int64_t made = around ? gpu::row_bytes(*around, rows) : 0) return made;
  return rows.cols * static_cast<int64_t>(itemsize(dtype(rows.input)));
}
void KernelArgs::launch_raw(Function f, Grid grid, int block, size_t shared, void** args,
                            const uint32_t* sizes, int nargs) const {
  device.launch(f, device.stream(stream), grid, Grid(block), shared, args, sizes, nargs, op, small);
}
bool KernelArgs::steady(int i, bool own) const {
  if (!has(i)) return true;
  if (asked()) return false;
  GraphRecorder* r = device.stream(stream).queue.recorder();
  return r && r->steady(reach_of(tensors[i]), own);
}
void* KernelArgs::workspace(size_t bytes) const {
  if (GraphRecorder* r = device.stream(stream).queue.recorder()) [[unlikely]]
    return r->workspace(bytes);
  return scratch(device.index, stream, bytes);
}
void KernelArgs::fill(void* data, int byte, size_t bytes) const {
  if (!bytes) return;
  Stream& on = device.stream(stream);
  on.queue.in_order(op, [&d = device, s = on.handle, data, byte, bytes] {
    d.activate();
    check(runtime().MemsetD8Async(data, static_cast<unsigned char>(byte), bytes, s),
          PF_RT("hipMemsetD8Async", "cuMemsetD8Async"));
  });
}
void KernelArgs::copy(void* to, const void* from, size_t bytes) const {
  if (!bytes) return;
  Stream& on = device.stream(stream);
  on.queue.in_order(op, [&d = device, s = on.handle, to, from, bytes] {
    d.activate();
    check(runtime().MemcpyDtoDAsync(to, from, bytes, s),
          PF_RT("hipMemcpyDtoDAsync", "cuMemcpyDtoDAsync"));
  });
}
void* KernelArgs::upload(const void* host, size_t bytes) const {
  Queue& queue = device.stream(stream).queue;
  if (GraphRecorder* r = queue.recorder()) [[unlikely]]
    return r->upload(op, host, bytes);
  void* p = workspace(bytes);
  queue.copy_from_host(op, p, host, bytes);
  return p;
}
pf_error KernelArgs::error() const {
  return device.stream(stream).error_arg(op, indices);
}

// ---- spaces ------------------------------------------------------------------------------------

bool Space::contiguous(int operand) const {
  return numel <= 1 || (ndim == 1 && strides[operand][0] == 1);
}

bool Space::small() const {
  constexpr int64_t kMost = 2147483647;
  if (numel > kMost) return false;
  for (const auto& s : strides) {
    int64_t reach = 0;
    for (int d = 0; d < ndim; ++d) {
      const int64_t step = s[d] < 0 ? -s[d] : s[d];
      if (shape[d] > 1 && step > kMost / (shape[d] - 1)) return false;
      reach += step * (shape[d] - 1);
    }
    if (reach > kMost) return false;
  }
  return true;
}

Space make_space(std::initializer_list<const pf_tensor*> operands) {
  Space s;
  const pf_tensor& first = **operands.begin();
  const int n = static_cast<int>(operands.size());
  s.numel = numel(first);
  if (s.numel == 0) {
    s.ndim = 1;
    return s;
  }
  // From the slowest dimension to the fastest; one that continues its neighbour joins it.
  for (int d = 0; d < first.ndim; ++d) {
    if (first.shape[d] == 1) continue;
    bool joins = s.ndim > 0;
    for (int k = 0; k < n && joins; ++k)
      joins = s.strides[k][s.ndim - 1] == operands.begin()[k]->strides[d] * first.shape[d];
    if (!joins) s.shape[s.ndim++] = 1;
    s.shape[s.ndim - 1] *= first.shape[d];
    for (int k = 0; k < n; ++k) s.strides[k][s.ndim - 1] = operands.begin()[k]->strides[d];
  }
  if (s.ndim == 0) {
    s.ndim = 1;
    s.shape[0] = 1;
    for (int k = 0; k < n; ++k) s.strides[k][0] = 1;
  }
  return s;
}

}  // namespace pyflame::gpu
