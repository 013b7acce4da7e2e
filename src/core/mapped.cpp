#include "core/mapped.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>

#include "core/lock.h"
#include "pyflame/error.h"

namespace pyflame {
namespace {

// A signal handler reads these: no locks, no memory. More files than this are mapped, too, but a
// page that goes away there ends the process.
constexpr int kSlots = 4096;
struct Slot {
  std::atomic<uintptr_t> begin{0}, end{0};  // end is 0 where the slot is free
  std::atomic<bool> torn{false};
  std::string path;  // not for the handler
};
Slot g_slots[kSlots];
std::atomic<int> g_slots_used{0};  // all above were never used
uintptr_t g_page = 4096;
struct sigaction g_before;  // who had SIGBUS before us

Slot* slot_of(uintptr_t address) {
  const int used = g_slots_used.load(std::memory_order_acquire);
  for (int i = 0; i < used; ++i) {
    Slot& s = g_slots[i];
    const uintptr_t end = s.end.load(std::memory_order_acquire);
    if (address < end && address >= s.begin.load(std::memory_order_relaxed)) return &s;
  }
  return nullptr;
}

void on_bus_error(int number, siginfo_t* info, void* context) {
  const int saved = errno;
  const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  if (Slot* s = info->si_code == BUS_ADRERR ? slot_of(address) : nullptr) {
    void* page = reinterpret_cast<void*>(address & ~(g_page - 1));
    if (mmap(page, g_page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
             0) != MAP_FAILED) {
      if (!s->torn.exchange(true)) detail::g_torn_files.fetch_add(1);
      errno = saved;
      return;  // to the same instruction, which now reads zeros
    }
  }
  // Not ours: as if we were not there.
  if (g_before.sa_flags & SA_SIGINFO
          ? g_before.sa_sigaction != nullptr
          : g_before.sa_handler != SIG_DFL && g_before.sa_handler != SIG_IGN) {
    if (g_before.sa_flags & SA_SIGINFO)
      g_before.sa_sigaction(number, info, context);
    else
      g_before.sa_handler(number);
    // One that has put us back and raised the signal anew wants the process to end (faulthandler).
    sigset_t waiting;
    if (sigpending(&waiting) == 0 && sigismember(&waiting, number)) signal(number, SIG_DFL);
    errno = saved;
    return;
  }
  signal(number, SIG_DFL);                // the instruction runs again
  if (info->si_code <= 0) raise(number);  // or it was sent
}

Mutex& slots_mutex() {
  static auto* m = new Mutex;
  return *m;
}

// With the mutex held. Others may have taken the signal since (faulthandler.enable()): ours is put
// before theirs again.
void watch() {
  struct sigaction now {};
  if (sigaction(SIGBUS, nullptr, &now) == 0 && (now.sa_flags & SA_SIGINFO) &&
      now.sa_sigaction == &on_bus_error)
    return;
  g_page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  struct sigaction ours {};
  ours.sa_sigaction = &on_bus_error;
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&ours.sa_mask);
  g_before = now;
  sigaction(SIGBUS, &ours, nullptr);
}

}  // namespace

namespace detail {

std::atomic<int> g_torn_files{0};

void check_mapped(const void* address, const char* op) {
  Slot* s = slot_of(reinterpret_cast<uintptr_t>(address));
  if (!s || !s->torn.load()) return;
  std::lock_guard lock(slots_mutex());
  PF_FAIL(FileError, op, "the file '", s->path,
          "' became shorter while its pages were shown; expected a file that nobody cuts; what was "
          "read of the missing part are zeros; load it again, without mapping it where others may "
          "overwrite it");
}

}  // namespace detail

void check_shown(const void* last, const char* op) {
  if (!slot_of(reinterpret_cast<uintptr_t>(last))) return;
  static_cast<void>(*static_cast<const volatile char*>(last));
  check_mapped(last, op);
}

MappedFile::MappedFile(int fd, size_t size, std::string path, const char* op, Writes writes)
    : size_(size), path_(std::move(path)), slot_(-1) {
  const bool to_file = writes == Writes::ToFile;
  if (to_file) {
    int error;
    do error = posix_fallocate(fd, 0, static_cast<off_t>(size));
    while (error == EINTR);
    if (error != 0)
      PF_FAIL(FileError, op, "cannot get ", size, " bytes of room for '", path_,
              "': ", std::strerror(error), "; expected them on its disk; make room there");
  }
  // What takes memory comes before what would have to be given back.
  std::string shown = path_;
  std::lock_guard lock(slots_mutex());
  void* p = mmap(nullptr, size, writes == Writes::None ? PROT_READ : PROT_READ | PROT_WRITE,
                 to_file ? MAP_SHARED : MAP_PRIVATE | MAP_NORESERVE, fd, 0);
  if (p == MAP_FAILED)
    PF_FAIL(FileError, op, "cannot map '", path_, "': ", std::strerror(errno),
            "; expected a file that can be mapped; read it without mapping");
  data_ = static_cast<char*>(p);
  watch();
  for (int i = 0; i < kSlots; ++i) {
    Slot& s = g_slots[i];
    if (s.end.load(std::memory_order_relaxed) != 0) continue;
    s.path = std::move(shown);
    s.torn = false;
    s.begin.store(reinterpret_cast<uintptr_t>(data_), std::memory_order_relaxed);
    s.end.store(reinterpret_cast<uintptr_t>(data_) + (size + g_page - 1) / g_page * g_page,
                std::memory_order_release);
    if (i >= g_slots_used.load(std::memory_order_relaxed))
      g_slots_used.store(i + 1, std::memory_order_release);
    slot_ = i;
    break;
  }
}

MappedFile::~MappedFile() {
  {
    std::lock_guard lock(slots_mutex());
    if (slot_ >= 0) {
      g_slots[slot_].end.store(0, std::memory_order_release);
      if (g_slots[slot_].torn.exchange(false)) detail::g_torn_files.fetch_sub(1);
    }
  }
  munmap(data_, size_);
}

}  // namespace pyflame
