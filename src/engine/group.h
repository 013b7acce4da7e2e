// A group: what one thread has recorded and not yet run, and what runs it.
#pragma once

#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "core/allocator.h"
#include "core/lock.h"
#include "core/stream.h"
#include "core/tensor_impl.h"
#include "engine/gil.h"
#include "engine/graph.h"
#include "engine/programs.h"

namespace pyflame::engine {

struct Takeover;  // takeover.h
class Capture;    // capture.h

class Group : public Window {
 public:
  Mutex mutex;
  class Capture* capture = nullptr;  // what its launches are noted in; see capture.h
  bool waits_for_reader = false;     // no thread's: runs when somebody reads what it makes
  const Capture* left_by = nullptr;  // of such a group: the capture that it was made in
  std::shared_ptr<Takeover> takeover;
  size_t output_bytes = 0;   // of everything the group writes
  size_t input_bytes = 0;    // of everything it reads
  std::exception_ptr error;  // of a flush; raised at the next flush() or synchronize()
  // A window that is closed and waits until something needs it: by then nobody may look any more at
  // what only a line of the program held. It is a group like others to whoever reads or writes what
  // it does.
  Group* aside = nullptr;
  bool needs_aside = false;  // the kernel that is recorded reads what that one writes
  int since_aside = 0;       // groups that ran meanwhile
  RecentPrograms recent;
  // The recording thread's current streams, by device type and index; of devices that lie beyond
  // the end it is the default stream. They change only while the group is empty.
  std::vector<StreamState*> streams[kDeviceTypes];

  StreamState* stream(Device d) const {
    const auto& of_type = streams[static_cast<size_t>(d.type)];
    const auto i = static_cast<size_t>(d.index);
    return i < of_type.size() ? of_type[i] : nullptr;
  }
};

namespace detail {
extern constinit thread_local Group* t_group;
Group& make_group();
}  // namespace detail
inline Group& current_group() {  // the calling thread's
  return detail::t_group ? *detail::t_group : detail::make_group();
}
std::vector<Group*> every_group();  // of all threads, with those that wait for a thread
Group* new_group();                 // one that every_group() knows, and that is never freed
// Marks a storage that several groups have recorded reads of.
Group* many_readers();
void flush_other(Group* g, Flush why);  // which may be another thread's
void flush_all(Flush why);
void submit(Device d);
// Where a tensor lies, once what reads or writes it is done or on its way.
void* writable_data(const Tensor&);

// ---- running -----------------------------------------------------------------------------------

// Runs the group; its mutex is held. Never throws: failures poison what should have been written
// and stay in group.error.
void run_group(Group&, Flush why) noexcept;
// The same for all but its last phase, which becomes the first one of the group; what it reads and
// writes is for the caller to note. False where the run failed: the group is empty.
bool run_to_anchor(Group&, Flush why) noexcept;
void move_phase(Phase& from, Phase& to);  // to one that is empty: what is in it, not who writes it
// What is recorded becomes the window that waits; what was set aside before runs. The group's mutex
// is held.
void set_aside(Group&);
// What was set aside is what is recorded again; what was recorded meanwhile runs. The same.
void bring_back(Group&);
// A kernel that is about to be recorded reads these: those that the window aside writes stay
// pending there and run before it, if the window can tell that they are needed. The same.
void read_aside(Group&, std::span<const Tensor>);
// Runs what was set aside; where that failed, now or before, the error is the group's. Its mutex is
// held.
bool run_aside(Group&) noexcept;
size_t bytes_aside(const Group&);  // of what it will write
// `error`, which somebody was told, is not told again at the next flush.
void forget_error(Group&, const std::exception_ptr& error);
// Forgets what was recorded: everything that it was to write is poisoned with group.error.
void discard(Group&) noexcept;
// The same where nobody can read it.
void abandon(Group&) noexcept;
// What a kernel is told of a tensor, and of one that is not there. Beyond its dimensions nothing is
// written: clearing the whole took longer than the rest.
void set_tensor(pf_tensor&, void* data, DType, const Dims& shape, const Dims& strides);
void set_undefined(pf_tensor&);
// The backend's kernel; null where it has none.
void* find_kernel(const Kernel&, Device);
// Runs one named kernel at once. Throws.
void run_kernel(const Kernel&, Device, StreamState*, std::span<const pf_tensor> tensors,
                std::span<const pf_scalar> attrs, const CallOptions&);
// IndexError when one is set.
pf_index_error index_error(const Kernel&, const CallOptions&);  // none yet
void raise_index_error(const pf_index_error&);
// Memory for a storage that has none yet; notes that the stream uses it.
void ensure_memory(Storage&, StreamState*, const MemoryUse&);
// Waits for one stream, or for every stream of a device; raises what failed.
void wait_for_stream(Device, StreamState*, const char* op);
void wait_for_device(Device);
pf_scalar to_kernel_scalar(Scalar);

}  // namespace pyflame::engine
