#include "gpu/cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <map>
#include <memory>

#include "core/hash.h"
#include "files/file.h"
#include "gpu/library.h"
#include "pyflame/error.h"

namespace pyflame::gpu {

void Digest::add(const std::string& s) {
  for (unsigned char c : s) {
    a_ = (a_ ^ c) * 0x100000001b3u;
    b_ = (b_ ^ c) * 0x9e3779b97f4a7c15u;
    b_ ^= b_ >> 31;
  }
  a_ = (a_ ^ s.size()) * 0x100000001b3u;
}

std::string Digest::hex() const {
  char text[33];
  std::snprintf(text, sizeof text, "%016llx%016llx", static_cast<unsigned long long>(a_),
                static_cast<unsigned long long>(b_));
  return text;
}

// ---- folders -----------------------------------------------------------------------------------

std::string cache_folder() {
  if (const char* x = std::getenv("XDG_CACHE_HOME"); x && *x == '/')
    return std::string(x) + "/pyflame/kernels";
  if (const char* home = std::getenv("HOME"); home && *home)
    return std::string(home) + "/.cache/pyflame/kernels";
  return "";
}

bool make_folders(const std::string& path) {
  for (size_t at = 0; at != std::string::npos;) {
    at = path.find('/', at + 1);
    if (mkdir(path.substr(0, at).c_str(), 0700) != 0 && errno != EEXIST) return false;
  }
  return true;
}

namespace {

// A file: this, the lines of CacheKey::info, the code object. python/pyflame/kernel_cache.py reads
// them too.
struct Header {
  char magic[8];
  uint64_t info_bytes, code_bytes;
  uint64_t sum;  // of both
};
constexpr char kMagic[8] = {'P', 'F', 'K', 'E', 'R', 'N', '2', '\n'};

uint64_t checksum(const std::string& s) {
  return hash_bytes(s.data(), s.size(), 0x2545f4914f6cdd1du);
}

std::string path_of(const CacheKey& key) {
  const std::string f = cache_folder();
  return f.empty() ? f : f + "/" + key.architecture + "-" + key.digest + ".bin";
}

}  // namespace

bool read_cached(const CacheKey& key, std::string& code) {
  const std::string path = path_of(key);
  if (path.empty() || access(path.c_str(), R_OK) != 0) return false;
  try {
    const files::ReadFile f(path, "kernel cache");
    Header h{};
    if (f.size() < sizeof h) return false;
    f.read(0, &h, sizeof h);
    const uint64_t rest = f.size() - sizeof h;
    if (std::memcmp(h.magic, kMagic, sizeof kMagic) != 0 || h.code_bytes == 0 ||
        h.info_bytes > rest || h.code_bytes != rest - h.info_bytes)
      return false;
    std::string all(rest, 0);
    f.read(sizeof h, all.data(), rest);
    if (checksum(all) != h.sum) return false;
    code = all.substr(h.info_bytes);
    // The time of the file says when it was last used, to an hour.
    struct stat st {};
    if (fstat(f.fd(), &st) == 0 && std::time(nullptr) - st.st_mtime > 3600)
      (void)futimens(f.fd(), nullptr);
    return true;
  } catch (const FileError&) {  // no file, or one that is being changed: it is compiled
    return false;
  }
}

// ---- packs -------------------------------------------------------------------------------------
namespace {

// A pack: this, that many places, the code objects.
struct PackHeader {
  char magic[8];
  uint64_t places;
  uint64_t sum;  // of the places
};
struct Place {
  char key[64];  // "gfx942-<portable>", zeros behind it
  uint64_t at, bytes, sum;
};
constexpr char kPackMagic[8] = {'P', 'F', 'P', 'A', 'C', 'K', '1', '\n'};

struct Pack {
  std::unique_ptr<files::ReadFile> file;
  std::map<std::string, Place> places;
};

std::string pack_path() {
  if (const char* p = std::getenv("PYFLAME_KERNEL_PACK")) return p;
  const Names folders = package_folders();
  return folders.empty() ? "" : folders.front() + "/pyflame-kernels.pack";
}

// Without places where there is no whole pack: all is compiled then.
Pack open_pack() {
  Pack pack;
  const std::string path = pack_path();
  if (path.empty() || access(path.c_str(), R_OK) != 0) return pack;
  try {
    pack.file = std::make_unique<files::ReadFile>(path, "kernel pack");
    const uint64_t size = pack.file->size();
    PackHeader h{};
    if (size < sizeof h) return pack;
    pack.file->read(0, &h, sizeof h);
    if (std::memcmp(h.magic, kPackMagic, sizeof kPackMagic) != 0 ||
        h.places > (size - sizeof h) / sizeof(Place))
      return pack;
    std::string list(h.places * sizeof(Place), 0);
    pack.file->read(sizeof h, list.data(), list.size());
    if (checksum(list) != h.sum) return pack;
    for (uint64_t i = 0; i < h.places; ++i) {
      Place p{};
      std::memcpy(&p, list.data() + i * sizeof p, sizeof p);
      p.key[sizeof p.key - 1] = 0;
      if (p.at <= size && p.bytes <= size - p.at) pack.places.emplace(p.key, p);
    }
  } catch (const FileError&) {
    pack.places.clear();
  }
  return pack;
}

}  // namespace

bool read_packed(const CacheKey& key, std::string& code) {
  static const Pack* pack = new Pack(open_pack());
  auto it = pack->places.find(key.architecture + "-" + key.portable);
  if (it == pack->places.end()) return false;
  const Place& p = it->second;
  try {
    code.resize(p.bytes);
    pack->file->read(p.at, code.data(), p.bytes);
  } catch (const FileError&) {  // it became shorter
    return false;
  }
  return checksum(code) == p.sum;
}

// Of two writers the second replaces the first's by the same.
void write_cached(const CacheKey& key, const std::string& code) {
  const std::string path = path_of(key);
  if (path.empty() || !make_folders(cache_folder())) return;
  const std::string all = key.info + code;
  Header h{};
  std::memcpy(h.magic, kMagic, sizeof kMagic);
  h.info_bytes = key.info.size();
  h.code_bytes = code.size();
  h.sum = checksum(all);
  try {
    files::AtomicFile f(path, "kernel cache");
    f.write(&h, sizeof h);
    f.write(all.data(), all.size());
    f.commit(files::AtomicFile::Keep::IfProcessDies);
  } catch (const Error&) {  // compiled again next time
  }
}

}  // namespace pyflame::gpu
