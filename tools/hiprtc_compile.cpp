// Compiles files with AMD's run-time compiler, for tools/kernels.py. The compiler may be newer than
// this system, so this is a program of its own, started by the loader that came with it:
//
//   LOADER --library-path DIRS hiprtc_compile LIBHIPRTC
//
// reads lines "source, result, option...", divided by tabs, and answers each with "ok" or with the
// log, whose end is a line with a single dot.
#include <dlfcn.h>

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

namespace {

void* library = nullptr;

template <class F>
F* symbol(const char* name) {
  void* p = dlsym(library, name);
  if (!p) {
    std::cerr << "hiprtc_compile: no " << name << "\n";
    std::exit(2);
  }
  return reinterpret_cast<F*>(p);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return std::cerr << "usage: hiprtc_compile LIBHIPRTC\n", 2;
  library = dlopen(argv[1], RTLD_NOW);
  if (!library) return std::cerr << "hiprtc_compile: " << dlerror() << "\n", 2;
  auto* version = symbol<int(int*, int*)>("hiprtcVersion");
  auto* create =
      symbol<int(void**, const char*, const char*, int, const char* const*, const char* const*)>(
          "hiprtcCreateProgram");
  auto* compile = symbol<int(void*, int, const char* const*)>("hiprtcCompileProgram");
  auto* log_size = symbol<int(void*, size_t*)>("hiprtcGetProgramLogSize");
  auto* get_log = symbol<int(void*, char*)>("hiprtcGetProgramLog");
  auto* code_size = symbol<int(void*, size_t*)>("hiprtcGetCodeSize");
  auto* get_code = symbol<int(void*, char*)>("hiprtcGetCode");
  auto* destroy = symbol<int(void**)>("hiprtcDestroyProgram");
  int major = 0, minor = 0;
  version(&major, &minor);
  std::cout << major << "." << minor << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    std::vector<std::string> words;
    std::istringstream in(line);
    for (std::string w; std::getline(in, w, '\t');) words.push_back(w);
    std::ifstream file(words.at(0));
    std::ostringstream text;
    text << file.rdbuf();
    std::vector<const char*> options;
    for (size_t i = 2; i < words.size(); ++i) options.push_back(words[i].c_str());
    void* program = nullptr;
    int error = create(&program, text.str().c_str(), "text.hip", 0, nullptr, nullptr);
    if (!error) error = compile(program, static_cast<int>(options.size()), options.data());
    size_t n = 0;
    if (error) {
      std::string log;
      if (program && log_size(program, &n) == 0 && n > 1) {
        log.resize(n);
        get_log(program, log.data());
      }
      std::cout << "error " << error << "\n" << log.c_str() << "\n." << std::endl;
    } else {
      code_size(program, &n);
      std::string code(n, 0);
      get_code(program, code.data());
      std::ofstream(words.at(1), std::ios::binary) << code;
      std::cout << "ok" << std::endl;
    }
    if (program) destroy(&program);
  }
}
