#include "cpu/library_file.h"

#include <elf.h>
#include <sys/stat.h>

#include <cstdlib>
#include <cstring>
#include <fstream>

namespace pyflame::cpu {

std::string damage_of(const std::string& path) {
  struct stat file;
  std::ifstream f(path, std::ios::binary);
  if (!f || stat(path.c_str(), &file) != 0) return "";
  const auto size = static_cast<uint64_t>(file.st_size);
  Elf64_Ehdr head;
  if (!f.read(reinterpret_cast<char*>(&head), sizeof head) ||
      std::memcmp(head.e_ident, ELFMAG, SELFMAG) != 0)
    return path + " is no library";
  if (head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_phentsize != sizeof(Elf64_Phdr)) return "";
  f.seekg(static_cast<std::streamoff>(head.e_phoff));
  for (int i = 0; i < head.e_phnum; ++i) {
    Elf64_Phdr part;
    if (!f.read(reinterpret_cast<char*>(&part), sizeof part)) return path + " is cut off";
    if (part.p_type == PT_LOAD && (part.p_filesz > size || part.p_offset > size - part.p_filesz))
      return path + " is cut off";
  }
  return "";
}

std::string damage_of_named(const std::string& name) {
  const char* more = std::getenv("LD_LIBRARY_PATH");
  std::string places = std::string(more ? more : "") +
                       ":/lib/x86_64-linux-gnu:/usr/lib/x86_64-linux-gnu:/lib64:/usr/lib64:/lib:"
                       "/usr/lib:/usr/local/lib:";
  for (size_t at = 0, end; (end = places.find(':', at)) != std::string::npos; at = end + 1) {
    if (end == at) continue;
    const std::string path = places.substr(at, end - at) + "/" + name;
    struct stat file;
    if (stat(path.c_str(), &file) == 0) return damage_of(path);
  }
  return "";
}

}  // namespace pyflame::cpu
