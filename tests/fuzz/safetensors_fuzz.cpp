// Mutates valid safetensors files and reads them: every outcome must be a tensor or a FileError.
// Usage: safetensors_fuzz [iterations] [seed]. Built as a libFuzzer target when PYFLAME_LIBFUZZER
// is defined. Meant to run with AddressSanitizer.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>

#include "core/tensor_impl.h"
#include "engine/engine.h"
#include "io/safetensors.h"
#include "pyflame/io.h"

namespace {

using namespace pyflame;

// The name of a memory file: nothing touches the disk.
std::string scratch_path() {
  return "/dev/shm/pyflame_fuzz_" + std::to_string(std::rand()) + ".safetensors";
}

void write_plain(const std::string& path, const uint8_t* data, size_t size) {
  FILE* f = std::fopen(path.c_str(), "wb");
  if (!f) std::abort();
  if (size && std::fwrite(data, 1, size, f) != size) std::abort();
  std::fclose(f);
}

void touch(const Tensor& t) {
  if (t->numel == 0) return;
  Tensor plain = t->contiguous ? t : make_view(t, Dims{1}, Dims{1}, t->offset);
  auto* p = static_cast<const volatile unsigned char*>(engine::host_data(plain, "fuzz"));
  unsigned sum = 0;
  for (size_t i = 0; i < nbytes(plain->dtype, plain->numel); ++i) sum += p[i];
  (void)sum;
}

void touch(const io::Tree& tree) {
  if (auto* t = std::get_if<Tensor>(&tree.value)) touch(*t);
  if (auto* l = std::get_if<io::Tree::List>(&tree.value))
    for (const auto& item : *l) touch(item);
  if (auto* t = std::get_if<io::Tree::Tuple>(&tree.value))
    for (const auto& item : t->items) touch(item);
  if (auto* d = std::get_if<io::Tree::Dict>(&tree.value))
    for (const auto& [key, value] : d->items) touch(key), touch(value);
  if (auto* t = std::get_if<io::Tree::Typed>(&tree.value)) touch(t->of.at(0));
}

void try_read(const std::string& path) {
  for (io::Load how : {io::Load::Copy, io::Load::Map}) {
    try {
      touch(io::load_tree(path, {}, how));
    } catch (const FileError&) {
    }
    try {
      for (auto& t : io::load_safetensors(path, {}, how)) touch(t.tensor);
    } catch (const FileError&) {
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::string path = scratch_path();
  write_plain(path, data, size);
  try_read(path);
  try {
    touch(io::load_tree(io::Memory{"memory", data, size}, io::Placing{}));
  } catch (const FileError&) {
  }
  std::remove(path.c_str());
  return 0;
}

#ifndef PYFLAME_LIBFUZZER
namespace {

std::string read_all(const std::string& path) {
  std::string s;
  FILE* f = std::fopen(path.c_str(), "rb");
  if (!f) std::abort();
  char buffer[4096];
  for (size_t n; (n = std::fread(buffer, 1, sizeof buffer, f)) > 0;) s.append(buffer, n);
  std::fclose(f);
  return s;
}

Tensor numbers(const Dims& shape, DType dtype) {
  Tensor t = make_tensor(shape, dtype, Device{});
  std::string bytes(nbytes(dtype, t->numel), '\1');
  if (t->numel) engine::copy_from_host(t, bytes.data());
  return t;
}

std::string seed_file(int kind) {
  std::string path = scratch_path();
  Tensor w = numbers(Dims{4, 6}, DType::Float32);
  if (kind == 0) {
    io::save_safetensors(path,
                         {{"w", w},
                          {"mask", numbers(Dims{5}, DType::Bool)},
                          {"half", numbers(Dims{3, 0, 2}, DType::BFloat16)}},
                         {{"format", "pf"}, {"unicode", "\xc3\xa9\n\""}});
  } else {
    io::Tree::Dict inner{
        {{{int64_t{3}}, {io::Tree::Tuple{{{w}, {1.5}, {true}}}}},
         {{std::string("tied")}, {w}},
         {{std::string("row")}, {make_view(w, Dims{6}, Dims{1}, 6)}},
         {{std::string("big")}, {io::Tree::BigInt{"123456789012345678901234"}}},
         {{io::Tree::Typed{"frozenset", {{io::Tree::List{{int64_t{1}}}}}}},
          {io::Tree::BigInt{"-0x1fffffffffffffffff"}}},
         {{std::string("set")}, {io::Tree::Typed{"set", {{io::Tree::List{{w}}}}}}}}};
    io::save_tree(path, {io::Tree::List{{std::move(inner)}, {}, {io::Tree::Bytes{"ab"}}}});
  }
  std::string s = read_all(path);
  std::remove(path.c_str());
  return s;
}

const char* const kWords[] = {"{",
                              "}",
                              "[",
                              "]",
                              ",",
                              ":",
                              "\"",
                              "\\u",
                              "\\",
                              "-1",
                              "0",
                              "1e999",
                              "18446744073709551615",
                              "9223372036854775807",
                              "__metadata__",
                              "dtype",
                              "shape",
                              "data_offsets",
                              "F32",
                              "I4",
                              "BOOL",
                              "null",
                              "\"$\":\"tensor\",\"v\":",
                              "{\"$\":\"typed\",\"v\":\"set\",\"of\":",
                              "\"hex\"",
                              "0x",
                              "[[[[[[[[[[[[[[[[",
                              "pyflame.tree"};

std::string mutate(std::string s, std::mt19937_64& random) {
  int times = 1 + static_cast<int>(random() % 4);
  for (int i = 0; i < times && !s.empty(); ++i) {
    size_t at = random() % s.size();
    if (random() % 2) at = random() % std::min<size_t>(s.size(), 700);  // mostly the header
    switch (random() % 7) {
      case 0:
        s[at] = static_cast<char>(s[at] ^ (1 << (random() % 8)));
        break;
      case 1:
        s.resize(at);
        break;
      case 2:
        s.erase(at, 1 + random() % 8);
        break;
      case 3:
        s.insert(at, kWords[random() % std::size(kWords)]);
        break;
      case 4: {
        uint64_t n = random() % 3 ? random() % 1024 : random();
        std::memcpy(s.data(), &n, std::min<size_t>(8, s.size()));
        break;
      }
      case 5: {
        size_t from = random() % s.size();
        s.insert(at, s.substr(from, random() % 64));
        break;
      }
      default:
        s[at] = static_cast<char>(random());
    }
    // Half of the time repair the length, so that the mutation reaches the JSON.
    if (s.size() > 8 && random() % 2) {
      size_t close = s.rfind("]}}");
      uint64_t n = close == std::string::npos ? s.size() - 8 : close + 3 - 8;
      if (close == std::string::npos || close >= 8) std::memcpy(s.data(), &n, 8);
    }
  }
  return s;
}

}  // namespace

int main(int argc, char** argv) {
  long iterations = argc > 1 ? std::atol(argv[1]) : 20000;
  std::mt19937_64 random(argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1);
  std::srand(static_cast<unsigned>(random()));
  const std::string seeds[] = {seed_file(0), seed_file(1)};
  for (long i = 0; i < iterations; ++i) {
    std::string s = mutate(seeds[random() % 2], random);
    LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(s.data()), s.size());
  }
  std::printf("safetensors_fuzz: %ld files read\n", iterations);
  return 0;
}
#endif
