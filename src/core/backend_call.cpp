#include "core/backend_call.h"

#include <cstring>
#include <new>
#include <string>

#include "core/backends.h"
#include "core/interrupt.h"
#include "core/room.h"
#include "pyflame/error.h"

namespace pyflame::backend {
namespace {

thread_local std::string t_error;
[[maybe_unused]] const AtThreadStart kMade([] { AtThreadStart::touch(&t_error); });

}  // namespace

const char* last_error() {
  return t_error.c_str();
}
void set_last_error(const char* text) {
  t_error = text;
}

pf_status guarded(void (*fn)(void*), void* context) {
  try {
    fn(context);
    t_error.clear();
    return PF_OK;
  } catch (const std::bad_alloc&) {
    t_error = "host memory for a kernel's scratch space ran out";
    return PF_OOM;
  } catch (const OutOfMemoryError& e) {
    note_shortage(e.what());
    t_error = e.what();
    return PF_OOM;
  } catch (const Interrupted&) {
    note_interrupted();
    t_error = Interrupted::kText;
    return PF_LAUNCH;
  } catch (const NotSupportedError& e) {
    t_error = e.what();
    return PF_UNSUPPORTED;
  } catch (const DTypeError& e) {
    t_error = e.what();
    return PF_UNSUPPORTED;
  } catch (const std::exception& e) {
    t_error = e.what();
    return PF_LAUNCH;
  }
}

pf_status Faults::inject(const char* call, int64_t nth, pf_status status) {
  static constexpr const char* kNames[kCount] = {"allocate", "program_create", "program_launch",
                                                 "kernel_launch", "copy"};
  for (int i = 0; i < kCount; ++i)
    if (std::strcmp(call, kNames[i]) == 0) {
      status_[i].store(status);
      left_[i].store(nth);
      return PF_OK;
    }
  set_last_error("no such call to make fail");
  return PF_INVALID;
}

pf_status Faults::check(int kind) {
  if (left_[kind].load(std::memory_order_relaxed) <= 0) return PF_OK;
  if (left_[kind].fetch_sub(1) != 1) return PF_OK;
  set_last_error("a fault that was asked for");
  return static_cast<pf_status>(status_[kind].load());
}

}  // namespace pyflame::backend
