// Opening the vendor's libraries: where they are looked for, and what is said when there is none.
#pragma once

#include <exception>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

namespace pyflame::gpu {

using Names = std::vector<std::string>;

// By a library: our own kernels take the work.
struct Refused : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Library {
  void* handle = nullptr;
  std::string path;
  // Throws Failure when it is needed and not there.
  void* symbol(const char* name, bool needed = true) const;
};

// Opens the first of `names` that can be opened; throws Failure with what was tried. `setting` is
// the environment variable that names one, and then no other is tried.
Library open_library(const char* what, const char* setting, const Names& names);

// Where the vendor's library `stem` may be; `versions` such as ".so.1", newest first.
Names vendor_library_names(const std::string& stem, std::initializer_list<const char*> versions);

// ---- runtime_<vendor>.cpp ----------------------------------------------------------------------
Names runtime_names();
Names rtc_names();  // of the runtime's own installation first
void add_vendor_places(Names&, const std::string& stem,
                       std::initializer_list<const char*> versions);
struct Runtime;
void take_vendor_calls(const Library&, Runtime&);

// For a struct of Calls, of a list X(NAME, ARGS): the pointers, and in each(take) what takes them,
// with `prefix` before their names.
#define PF_CALL_POINTER(NAME, ARGS) int(*NAME) ARGS = nullptr;
#define PF_CALL_TAKE(NAME, ARGS) take(NAME, (prefix + #NAME).c_str());

// A library that we can do without, and its calls. `Calls` has a pointer for each,
// and each(take) gives take(pointer, name) of all, with `false` behind those that may be missing.
template <class Calls>
struct VendorLibrary : Calls {
  std::string text;  // its name and path, or why it is not there
  bool usable = false;

  VendorLibrary(const char* name, const char* setting, const std::string& stem,
                std::initializer_list<const char*> versions) {
    try {
      const Library lib = open_library(name, setting, vendor_library_names(stem, versions));
      Calls::each([&](auto& call, const char* symbol, bool needed = true) {
        call =
            reinterpret_cast<std::remove_reference_t<decltype(call)>>(lib.symbol(symbol, needed));
      });
      text = std::string(name) + " (" + lib.path + ")";
      usable = true;
    } catch (const std::exception& e) {
      text = e.what();
    }
  }
};

// A library of this name that the process has loaded already (another framework's, say): two
// runtimes in one process do not see each other's memory, so that one is used.
std::string loaded_already(const std::string& stem);
// Folders of Python packages that may hold the vendor's libraries: beside this library (a wheel)
// and in the active environment.
Names package_folders();
void add_matches(Names& list, const std::string& pattern);

}  // namespace pyflame::gpu
