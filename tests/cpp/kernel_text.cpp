// Writes device text of the pointwise corpus for compilers to judge (tools/kernels.py), as the
// plug-ins give it to them: with its includes put in and cut to what is needed.
//
//   kernel_text DIR PER_FILE RANDOM [SEED COUNT]
//
// DIR/part_<n>.cpp with up to PER_FILE kernels each: all rows, gradients, conversions and RANDOM
// random groups; with SEED and COUNT, only COUNT of them, groups of models first and others drawn
// by SEED. The names of the kernels go to standard output, one a line: file, entry, case.
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <map>
#include <random>
#include <sstream>

#include "device_corpus.h"
#include "gpu/includes.h"
#include "gpu/prune.h"

namespace {

using namespace pyflame;

const char* kernel_file(const std::string& name) {
  static auto* known = new std::map<std::string, std::string>;
  auto it = known->find(name);
  if (it == known->end()) {
    std::ifstream in(std::string(PF_TEST_KERNELS) + "/" + name);
    if (!in) return nullptr;
    std::ostringstream text;
    text << in.rdbuf();
    it = known->emplace(name, text.str()).first;
  }
  return it->second.c_str();
}

std::string expand(const std::string& text) {
  return gpu::expand_includes("program", text, kernel_file);
}

void write(const std::string& path, const std::string& text) {
  std::ofstream out(path);
  out << text;
  out.close();
  if (!out) throw std::runtime_error("cannot write " + path);
}

void corpus(const std::string& dir, size_t per_file, size_t random, const char* const* sample) {
  using namespace pyflame::testing;
  std::vector<DeviceCase> cases = model_cases();
  for (auto* more : {&row_cases, &gradient_cases, &cast_cases})
    for (auto& c : more()) cases.push_back(std::move(c));
  for (size_t i = 0; i < random; ++i) cases.push_back(random_case(i));
  if (sample) {
    std::mt19937_64 rng(std::strtoull(sample[0], nullptr, 10));
    const size_t count = std::min(cases.size(), std::strtoul(sample[1], nullptr, 10));
    // Those that stand first are always taken.
    for (size_t i = model_cases().size(); i < count; ++i)
      std::swap(cases[i], cases[i + rng() % (cases.size() - i)]);
    cases.resize(count);
  }
  for (size_t from = 0; from < cases.size(); from += per_file) {
    const std::string file = "part_" + std::to_string(from / per_file) + ".cpp";
    std::string text = "#include \"math.h\"\n#include \"vector.h\"\n";
    for (size_t i = from; i < std::min(from + per_file, cases.size()); ++i) {
      const std::string entry = "k" + std::to_string(i);
      text += device_case_text(cases[i], entry);
      std::cout << file << " " << entry << " " << cases[i].name << "\n";
      if (i >= model_cases().size()) continue;
      if (const std::string more = device_epilogue_text(cases[i], entry + "e"); !more.empty()) {
        text += more;
        std::cout << file << " " << entry << "e " << cases[i].name << "_epilogue\n";
      }
    }
    write(dir + "/" + file, gpu::prune_kernel_text(expand(text), "", ""));
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4 && argc != 6) {
    std::cerr << "usage: kernel_text DIR PER_FILE RANDOM [SEED COUNT]\n";
    return 2;
  }
  try {
    corpus(argv[1], std::strtoul(argv[2], nullptr, 10), std::strtoul(argv[3], nullptr, 10),
           argc == 6 ? argv + 4 : nullptr);
  } catch (const std::exception& e) {
    std::cerr << "kernel_text: " << e.what() << "\n";
    return 1;
  }
}
