// What a kernel has made of the values of a tensor, and reads in its next calls in their place:
// weights in panels. It lies beside the storage and is made at the second call that would have used
// it while the version stayed; it goes with the storage, with the version, and when memory is
// short. Memory that others may write (foreign, or exposed) has none: such writes count nowhere.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "core/tensor_impl.h"

namespace pyflame {

// While it lives, what the calling thread's launch makes of this storage may be kept.
class KeepScope {
 public:
  explicit KeepScope(
      Storage* s);  // null, or nothing may be kept of it now: as if it were not there
  ~KeepScope();
  KeepScope(const KeepScope&) = delete;
  KeepScope& operator=(const KeepScope&) = delete;

 private:
  Storage* before_;
};

// What names a form: which kernel's, and all that its bytes follow from but the values themselves.
using KeptKey = std::vector<int64_t>;
// The bytes that `make` fills, to be read only. Null where none are kept: the caller goes without.
std::shared_ptr<const char> kept(const KeptKey& key, size_t bytes,
                                 const std::function<void(char*)>& make);

namespace detail {
void drop_forms(Storage&) noexcept;
}
inline void drop_kept(Storage& s) noexcept {
  if (s.kept.load(std::memory_order_relaxed)) [[unlikely]]
    detail::drop_forms(s);
}
// What there is, of all storages; running kernels finish with theirs.
void drop_all_kept() noexcept;
bool any_kept();

}  // namespace pyflame
