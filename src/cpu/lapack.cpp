#include "cpu/lapack.h"

#include <dlfcn.h>
#include <glob.h>
#include <link.h>

#ifdef PYFLAME_OPENMP
#include <omp.h>
#endif

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <vector>

#include "core/limits.h"
#include "core/lock.h"
#include "core/room.h"
#include "cpu/library_file.h"
#include "pyflame/error.h"

namespace pyflame::cpu {
namespace {

// OpenBLAS maps 40 MB, has a buffer of up to 128 MB for each thread from its opening on, and takes
// one for each call that runs at once. Where it gets none it ends the process, or asks again and
// again.
constexpr size_t kBuffer = size_t{128} << 20, kRest = size_t{32} << 20;
constexpr int kMostThreads = 128;  // as OpenBLAS is built
size_t buffers(int threads) {
  return kBuffer * static_cast<size_t>(std::clamp(threads, 1, kMostThreads));
}
// Kernels call it from all threads that a parallel_for here may have.
size_t room_to_run() {
  return buffers(num_threads()) + kRest;
}
size_t room_to_open() {
#ifdef PYFLAME_OPENMP
  const int threads = omp_get_max_threads();
#else
  const int threads = static_cast<int>(std::thread::hardware_concurrency());
#endif
  return buffers(threads) + room_to_run();
}

#if defined(__aarch64__)
#define PF_MULTIARCH "aarch64-linux-gnu"
#else
#define PF_MULTIARCH "x86_64-linux-gnu"
#endif

// The libraries that may be there, the best first: OpenBLAS on the OpenMP that we use ourselves,
// with threads of its own, as Python packages bring it, and LAPACK by whomever.
std::vector<std::string> candidates() {
  std::vector<std::string> r;
#ifdef PYFLAME_OPENMP
  r = {"/usr/lib/" PF_MULTIARCH "/openblas-openmp/libopenblas.so.0", "libopenblaso.so.0"};
#endif
  r.insert(r.end(), {"libopenblas.so.0", "libopenblasp.so.0"});
  // One that NumPy or SciPy has brought into the process.
  dl_iterate_phdr(
      [](dl_phdr_info* i, size_t, void* list) {
        const std::string path = i->dlpi_name ? i->dlpi_name : "";
        if (path.find("libscipy_openblas") != std::string::npos)
          static_cast<std::vector<std::string>*>(list)->push_back(path);
        return 0;
      },
      &r);
  // One beside the package that this library is in.
  Dl_info self;
  if (dladdr(reinterpret_cast<void*>(&candidates), &self) && self.dli_fname) {
    const std::string file = self.dli_fname;
    const std::string beside = file.substr(0, file.find_last_of('/') + 1) + "../";
    for (const char* place :
         {"scipy_openblas32/lib/libscipy_openblas*.so*",
          "scipy_openblas64/lib/libscipy_openblas*.so*", "numpy.libs/libscipy_openblas*.so*"}) {
      glob_t found;
      if (glob((beside + place).c_str(), 0, nullptr, &found) == 0)
        r.insert(r.end(), found.gl_pathv, found.gl_pathv + found.gl_pathc);
      globfree(&found);
    }
  }
  r.emplace_back("liblapack.so.3");
  return r;
}

constexpr const char* kInstall =
    "install libopenblas0-openmp (Debian, Ubuntu) or the Python package scipy-openblas32, or name "
    "a library in PYFLAME_LAPACK_PATH";

}  // namespace

void Lapack::take(void* so, const std::string& path) {
  constexpr const char* kNames[][2] = {
#define X(NAME, REAL, COMPLEX) {REAL, COMPLEX},
      PF_LAPACK_ROUTINES(X)
#undef X
  };
  // How a library spells dgemm: dgemm_, or as SciPy's builds have it.
  const std::pair<const char*, const char*> kSpellings[] = {
      {"", "_"}, {"scipy_", "_64_"}, {"scipy_", "_"}, {"", "_64_"}};
  for (const auto& spelling : kSpellings) {
    const std::string before = spelling.first, after = spelling.second;
    if (!dlsym(so, (before + "dgesdd" + after).c_str())) continue;
    wide_ = after == "_64_";
    for (int r = 0; r < static_cast<int>(Routine::kCount); ++r)
      for (int t = 0; t < 4; ++t) {
        const std::string name = kNames[r][t / 2];
        if (name.empty()) continue;
        functions_[r][t] = dlsym(so, (before + std::string(1, "sdcz"[t]) + name + after).c_str());
        if (!functions_[r][t]) {
          text_ = path + " lacks " + name;
          return;
        }
      }
    const std::string tail = after == "_64_" ? "64_" : "";
    auto get = [&](auto& fn, const std::string& name) {
      fn = reinterpret_cast<std::remove_reference_t<decltype(fn)>>(
          dlsym(so, (before + name + tail).c_str()));
    };
    const char* (*config)() = nullptr;
    get(config, "openblas_get_config");
    get(set_threads_, "openblas_set_num_threads");
    get(get_threads_, "openblas_get_num_threads");
    text_ = config ? std::string(config()) : "LAPACK";
    // On OpenMP threads are those of the calling thread: LibraryAlone is enough.
    if (text_.find("USE_OPENMP") != std::string::npos || !get_threads_) set_threads_ = nullptr;
    text_ += " (" + path + ")";
    ok_ = true;
    return;
  }
  text_ = path + " has no dgesdd";
}

Lapack::Lapack() {
  const char* path = std::getenv("PYFLAME_LAPACK_PATH");
  std::string why;
  for (const std::string& name : path ? std::vector<std::string>{path} : candidates()) {
    const std::string damaged =
        name.find('/') == std::string::npos ? damage_of_named(name) : damage_of(name);
    void* so = damaged.empty() ? dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL) : nullptr;
    if (!so) {
      const char* said = damaged.empty() ? dlerror() : nullptr;
      if (path || !damaged.empty()) why = damaged.empty() && said ? said : damaged;
      continue;
    }
    take(so, name);
    if (ok_) return;
    why = text_;
    dlclose(so);
  }
  text_ = (why.empty() ? "no LAPACK is installed" : "LAPACK cannot be used (" + why + ")") +
          std::string("; ") + kInstall;
}

namespace {
std::atomic<const Lapack*> g_opened{nullptr};
// How many calls keep a library of threads of its own at one, and what it had before.
Mutex g_mutex;
int g_alone = 0, g_before = 1;
}  // namespace

const Lapack* Lapack::open() {
  if (const Lapack* l = g_opened.load(std::memory_order_acquire)) return l;
  static Mutex mutex;
  std::lock_guard lock(mutex);
  if (const Lapack* l = g_opened.load(std::memory_order_acquire)) return l;
  const Room room(room_to_open());
  if (!room) return nullptr;
  const auto* l = new Lapack;  // never closed
  g_opened.store(l, std::memory_order_release);
  return l;
}

bool Lapack::available(std::string* text) {
  const Lapack* l = open();
  *text = l ? l->text_ : "too little memory to open it";
  return l && l->ok_;
}

const Lapack& Lapack::get(const char* op) {
  const Lapack* l = open();
  PF_CHECK(l && has_room(room_to_run()), OutOfMemoryError, op,
           "there is less memory than LAPACK takes; expected ", room_to_open() >> 20,
           " MB of what this process may have: ", memory_limits(), "; raise the limit");
  PF_CHECK(l->ok_, NotSupportedError, op, "this needs LAPACK; ", l->text_);
  return *l;
}

Lapack::Alone::Alone(const Lapack& l) : lapack_(l) {
  if (!l.set_threads_) return;
  std::lock_guard lock(g_mutex);
  if (g_alone++ > 0) return;
  g_before = l.get_threads_();
  if (g_before != 1) l.set_threads_(1);
}
Lapack::Alone::~Alone() {
  if (!lapack_.set_threads_) return;
  std::lock_guard lock(g_mutex);
  if (--g_alone == 0 && g_before != 1) lapack_.set_threads_(g_before);
}

}  // namespace pyflame::cpu
