#include "gpu/tuning.h"

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <sstream>
#include <string_view>
#include <vector>

#include "files/file.h"
#include "gpu/cache.h"
#include "gpu/device.h"
#include "gpu/host.h"
#include "gpu/product.h"
#include "pyflame/error.h"
#include "table/kernels/tuning.h"

namespace pyflame::gpu {
namespace {

constexpr const char* kFirst = "pyflame-tuning 1";
constexpr uint64_t kMostBytes = 16 << 20;

struct Measured {
  Choice choice;
  double us;
  std::string timed;  // by this process: "own 4 11.2;own 5 12.9"
};

struct Table {
  std::mutex mutex;
  std::map<std::string, Measured> choices;  // device, library, product
  std::string path;
  bool read = false, changed = false;
  int64_t hits = 0, misses = 0, timed = 0;
  std::string problem;  // of the last save
};
Table& table() {
  static auto* t = new Table;
  return *t;
}
std::atomic<bool> on{false}, all{false};
std::atomic<bool> any{false};  // choices, measuring, or a file that was not read yet

void warn(const std::string& text) {
  if (host() && host()->notice) host()->notice(host(), text.c_str());
}

bool ignored() {
  const char* v = std::getenv("PYFLAME_TUNING");
  return v && std::strcmp(v, "0") == 0;
}

std::string default_path() {
  if (const char* p = std::getenv("PYFLAME_TUNING_FILE"); p && *p) return p;
  const std::string f = cache_folder();  // .../pyflame/kernels
  return f.empty() ? f : f.substr(0, f.rfind('/')) + "/tuning.txt";
}

std::string hash(const std::string& text) {
  Digest d;
  d.add(text);
  return d.hex();
}

std::string text_of(Choice c) {
  return (c.own ? "own " : "library ") + std::to_string(c.index);
}

std::string print(const std::map<std::string, Measured>& choices) {
  std::ostringstream out;
  out << kFirst << "\n";
  for (const auto& [key, m] : choices)
    out << key << "\t" << text_of(m.choice) << "\t" << m.us << "\n";
  return out.str() + "checksum " + hash(out.str()) + "\n";
}

template <class T>
bool parse_number(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

// "own 5", "library 0": what by_choice() in kernels_matmul.cpp may have measured.
bool parse_choice(std::string_view text, Choice& choice) {
  const size_t blank = text.find(' ');
  const std::string_view source = text.substr(0, blank);
  choice.own = source == "own";
  if (blank == std::string_view::npos || (!choice.own && source != "library")) return false;
  return parse_number(text.substr(blank + 1), choice.index) &&
         choice.index >= (choice.own ? -1 : 0) &&
         choice.index < (choice.own ? kOwnTiles : kMostProposals);
}

// Empty when the text is whole, else what is wrong with it.
std::string parse(const std::string& text, std::map<std::string, Measured>& choices) {
  const size_t last = text.rfind("checksum ");
  if (text.rfind(kFirst, 0) != 0) return "it is not of version 1";
  if (last == std::string::npos ||
      text.substr(last) != "checksum " + hash(text.substr(0, last)) + "\n")
    return "its checksum is wrong";
  std::istringstream lines(text.substr(0, last));
  std::string line;
  std::getline(lines, line);
  while (std::getline(lines, line)) {
    const size_t b = line.rfind('\t'), a = b == std::string::npos ? b : line.rfind('\t', b - 1);
    if (a == std::string::npos) return "a line is no choice: " + line;
    Measured m{};
    if (!parse_choice(std::string_view(line).substr(a + 1, b - a - 1), m.choice) ||
        !parse_number(std::string_view(line).substr(b + 1), m.us) || !(m.us >= 0 && m.us < 1e12))
      return "a line is no choice: " + line;
    choices[line.substr(0, a)] = m;
  }
  return "";
}

// The same for a file.
std::string parse_file(const std::string& path, std::map<std::string, Measured>& choices) {
  std::string text;
  try {
    const files::ReadFile f(path, "tuning");
    if (f.size() > kMostBytes) return "it is larger than 16 MB";
    text.resize(f.size());
    f.read(0, text.data(), text.size());
  } catch (const FileError& e) {
    return e.what();
  }
  return parse(text, choices);
}

// With the mutex held.
void read_file(Table& t) {
  if (t.read) return;
  t.read = true;
  if (t.path.empty()) t.path = default_path();
  if (ignored() || t.path.empty() || access(t.path.c_str(), R_OK) != 0) return;
  std::map<std::string, Measured> found;
  const std::string wrong = parse_file(t.path, found);
  if (!wrong.empty()) {
    warn("the tuning file " + t.path + " is ignored: " + wrong);
    return;
  }
  t.choices.merge(found);
}

// With what others wrote meanwhile.
std::string save(Table& t) {
  if (t.path.empty()) return "there is no folder for it";
  std::map<std::string, Measured> both = t.choices, theirs;
  if (parse_file(t.path, theirs).empty()) both.merge(theirs);
  make_folders(t.path.substr(0, t.path.rfind('/')));
  const std::string text = print(both);
  try {
    files::AtomicFile f(t.path, "tuning");
    f.write(text.data(), text.size());
    f.commit();
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

std::string key_of(const KernelArgs& a, const std::string& library, const std::string& product) {
  return a.traits().name + " " + a.traits().architecture + "\t" + library + "\t" + product;
}

double time_of(const KernelArgs& a, const std::function<bool(Choice)>& run, Choice c, int times) {
  const Runtime& r = runtime();
  const Mark begin(a.device, 0), end(a.device, 0);
  Stream& s = a.device.stream(a.stream);
  const hipStream stream = s.handle;
  s.queue.drain();
  a.device.activate();  // what was drained may have been about another device's events
  check(r.EventRecord(begin.event, stream), PF_RT("hipEventRecord", "cuEventRecord"));
  for (int i = 0; i < times; ++i) run(c);
  check(r.EventRecord(end.event, stream), PF_RT("hipEventRecord", "cuEventRecord"));
  check(r.EventSynchronize(end.event), PF_RT("hipEventSynchronize", "cuEventSynchronize"));
  float ms = 0;
  check(r.EventElapsedTime(&ms, begin.event, end.event),
        PF_RT("hipEventElapsedTime", "cuEventElapsedTime"));
  return 1e3 * ms / times;
}

// The commands of python/pyflame/tuning.py.
void tuning(const KernelArgs& a) {
  Table& t = table();
  std::lock_guard lock(t.mutex);
  constexpr auto at = kernels::tensors<kernels::Tuning>;
  constexpr auto number = kernels::numbers<kernels::Tuning>;
  char* text = static_cast<char*>(a.data(at.text));
  const auto room = static_cast<size_t>(a.tensor(at.text).shape[0]);
  std::ostringstream out;
  switch (a.i(number.command)) {
    case 0:  // measure from now on, or not: whether it did, and how many were timed so far
      out << on.exchange(a.i(number.value) != 0) << " " << t.timed;
      break;
    case 1:  // measure everything from now on, or not
      all = a.i(number.value) != 0;
      break;
    case 2:  // another file
      t.path = text;
      t.choices.clear();
      t.read = false;
      read_file(t);
      break;
    case 3:
      out << save(t);
      break;
    case 4:
      t.choices.clear();
      t.hits = t.misses = t.timed = 0;
      break;
    default:
      read_file(t);
      out << "file " << t.path << "\nhits " << t.hits << "\nmisses " << t.misses << "\ntimed "
          << t.timed << "\nentries " << t.choices.size() << "\nhash " << hash(print(t.choices))
          << "\n";
      for (const auto& [key, m] : t.choices)
        out << key << "\t" << text_of(m.choice) << "\t" << m.us << "\t" << m.timed << "\n";
  }
  any = !t.read || !t.choices.empty() || on || all;
  std::snprintf(text, room, "%s", out.str().c_str());
}
PF_GPU_KERNEL(kernels::Tuning::kInfo, tuning)

}  // namespace

bool measuring() {
  return on.load(std::memory_order_relaxed) || all.load(std::memory_order_relaxed);
}
bool exhaustive() {
  return all.load(std::memory_order_relaxed);
}

bool find_choice(const KernelArgs& a, const std::string& library, const std::string& product,
                 Choice& choice) {
  Table& t = table();
  std::lock_guard lock(t.mutex);
  read_file(t);
  auto it = t.choices.find(key_of(a, library, product));
  ++(it == t.choices.end() ? t.misses : t.hits);
  if (it == t.choices.end()) return false;
  choice = it->second.choice;
  return true;
}

bool choices_matter() {
  static const bool once = [] {
    Table& t = table();
    std::lock_guard lock(t.mutex);
    read_file(t);
    any = !t.choices.empty() || on || all;
    return true;
  }();
  (void)once;
  return any.load(std::memory_order_relaxed);
}

Choice measure(const KernelArgs& a, const std::string& library, const std::string& product,
               const std::vector<Choice>& candidates, const std::function<bool(Choice)>& run) {
  Measured best{{}, -1, ""};
  int timed = 0;
  std::ostringstream list;
  for (const Choice& c : candidates) {
    if (!run(c)) continue;  // also compiles it, and fills caches
    const double us = time_of(a, run, c, all ? 20 : 5);
    list << (timed++ ? ";" : "") << text_of(c) << " " << us;
    if (best.us < 0 || us < best.us) best = {c, us, ""};
  }
  if (best.us < 0) throw Failure(PF_UNSUPPORTED, "no kernel can do the product " + product);
  best.timed = list.str();
  run(best.choice);
  Table& t = table();
  std::lock_guard lock(t.mutex);
  t.timed += timed;
  t.choices[key_of(a, library, product)] = best;
  any = true;
  return best.choice;
}

}  // namespace pyflame::gpu
