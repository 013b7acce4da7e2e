#include "gpu/library.h"

#include <dlfcn.h>
#include <glob.h>
#include <link.h>

#include <cstdlib>
#include <cstring>

#include "gpu/kernel.h"
#include "gpu/runtime.h"

namespace pyflame::gpu {

std::string loaded_already(const std::string& stem) {
  struct Search {
    const std::string& stem;
    std::string found;
  } search{stem + ".so", ""};
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* data) {
        auto* s = static_cast<Search*>(data);
        const char* slash = std::strrchr(info->dlpi_name, '/');
        const char* base = slash ? slash + 1 : info->dlpi_name;
        if (std::strncmp(base, s->stem.c_str(), s->stem.size()) != 0) return 0;
        s->found = info->dlpi_name;
        return 1;
      },
      &search);
  return search.found;
}

void add_matches(Names& list, const std::string& pattern) {
  glob_t g{};
  if (glob(pattern.c_str(), 0, nullptr, &g) == 0)
    for (size_t i = 0; i < g.gl_pathc; ++i) list.push_back(g.gl_pathv[i]);
  globfree(&g);
}

Names package_folders() {
  Names r;
  Dl_info self{};
  if (dladdr(reinterpret_cast<void*>(&package_folders), &self) && self.dli_fname) {
    std::string path = self.dli_fname;
    for (int up = 0; up < 3; ++up) {
      size_t slash = path.rfind('/');
      if (slash == std::string::npos) break;
      path.resize(slash);
      r.push_back(path);
    }
  }
  if (const char* env = std::getenv("VIRTUAL_ENV"))
    add_matches(r, std::string(env) + "/lib/python3*/site-packages");
  add_matches(r, "/usr/local/lib/python3*/*-packages");
  add_matches(r, "/usr/lib/python3*/*-packages");
  return r;
}

Library open_library(const char* what, const char* setting, const Names& names) {
  if (const char* path = std::getenv(setting); path && *path) {
    if (void* h = dlopen(path, RTLD_NOW | RTLD_LOCAL)) return {h, path};
    const char* why = dlerror();
    throw Failure(PF_UNSUPPORTED, std::string(setting) + "='" + path +
                                      "' could not be opened: " + (why ? why : "no reason given"));
  }
  std::string reasons, last;
  for (const std::string& name : names) {
    if (void* h = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return {h, name};
    const char* why = dlerror();
    // Not there is no news; a file that is there and does not load is.
    if (why && !std::strstr(why, "No such file")) reasons += std::string("; ") + why;
  }
  throw Failure(PF_UNSUPPORTED, std::string("no ") + what + " was found (looked for " +
                                    names.front() + " and others" + reasons +
                                    "); install it, or set " + setting + " to its path");
}

void* Library::symbol(const char* name, bool needed) const {
  void* p = dlsym(handle, name);
  if (!p && needed)
    throw Failure(PF_UNSUPPORTED, path + " has no function " + name +
                                      ": it is no library that this plug-in can use; install a "
                                      "current release");
  return p;
}

Names vendor_library_names(const std::string& stem, std::initializer_list<const char*> versions) {
  Names r;
  if (std::string l = loaded_already(stem); !l.empty()) r.push_back(l);
  add_vendor_places(r, stem, versions);
  r.push_back(stem + ".so");
  return r;
}

}  // namespace pyflame::gpu
