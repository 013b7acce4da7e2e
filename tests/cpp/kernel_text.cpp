// Prints device text of the pointwise corpus for compilers to judge (tools/kernels.py).
//
//   kernel_text DIR PER_FILE RANDOM [SEED COUNT]
//
// Writes DIR/part_<n>.cpp with up to PER_FILE kernels each: all rows, gradients, conversions and
// RANDOM random groups; with SEED and COUNT, only COUNT of them, groups of models first and others
// drawn by SEED. The names of the
// kernels go to standard output, one a line: file, entry, case.
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <random>

#include "device_corpus.h"

int main(int argc, char** argv) {
  using namespace pyflame::testing;
  if (argc != 4 && argc != 6) {
    std::cerr << "usage: kernel_text DIR PER_FILE RANDOM [SEED COUNT]\n";
    return 2;
  }
  const std::string dir = argv[1];
  const size_t per_file = std::strtoul(argv[2], nullptr, 10);
  const size_t random = std::strtoul(argv[3], nullptr, 10);
  try {
    std::vector<DeviceCase> cases = model_cases();
    for (auto* more : {&row_cases, &gradient_cases, &cast_cases})
      for (auto& c : more()) cases.push_back(std::move(c));
    for (size_t i = 0; i < random; ++i) cases.push_back(random_case(i));
    if (argc == 6) {
      std::mt19937_64 rng(std::strtoull(argv[4], nullptr, 10));
      const size_t count = std::min(cases.size(), std::strtoul(argv[5], nullptr, 10));
      // Those that stand first are always taken.
      for (size_t i = model_cases().size(); i < count; ++i)
        std::swap(cases[i], cases[i + rng() % (cases.size() - i)]);
      cases.resize(count);
    }
    std::ofstream out;
    for (size_t i = 0; i < cases.size(); ++i) {
      const std::string file = "part_" + std::to_string(i / per_file) + ".cpp";
      if (i % per_file == 0) {
        out.close();
        out.open(dir + "/" + file);
        out << "#include \"math.h\"\n";
      }
      const std::string entry = "k" + std::to_string(i);
      out << device_case_text(cases[i], entry);
      std::cout << file << " " << entry << " " << cases[i].name << "\n";
      if (i >= model_cases().size()) continue;
      if (const std::string text = device_epilogue_text(cases[i], entry + "e"); !text.empty()) {
        out << text;
        std::cout << file << " " << entry << "e " << cases[i].name << "_epilogue\n";
      }
    }
    out.close();
    if (!out) throw std::runtime_error("cannot write to " + dir);
  } catch (const std::exception& e) {
    std::cerr << "kernel_text: " << e.what() << "\n";
    return 1;
  }
}
