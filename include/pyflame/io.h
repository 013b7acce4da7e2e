// Files: safetensors, and trees of Python-like values in one safetensors file. Nothing that is
// read can run code, and every size is checked against the file before memory is taken for it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "pyflame/tensor.h"

namespace pyflame::io {

struct NamedTensor {
  std::string name;
  Tensor tensor;
};
using Metadata = std::map<std::string, std::string>;

// Copy reads the values into fresh memory. Map shows the pages of the file itself (CPU only; a
// write goes to a private copy of the page): fast to open, but the file must not be truncated
// by others while a tensor lives.
enum class Load : uint8_t { Copy, Map };

// A safetensors file, opened and wholly checked: header, dtypes, shapes, offsets. FileError
// otherwise. The file stays open as long as this object or a mapped tensor lives.
class SafetensorsFile {
 public:
  struct Entry {
    std::string name;
    DType dtype;
    Dims shape;
    uint64_t begin;  // bytes from the start of the data
    uint64_t end;
  };

  explicit SafetensorsFile(const std::string& path);
  const std::string& path() const;
  const std::vector<Entry>& entries() const;  // in the order of the data
  const Metadata& metadata() const;
  const Entry* find(const std::string& name) const;  // null when there is none
  Tensor tensor(const Entry&, Load how = Load::Copy, Device device = {}) const;

  struct Impl;

 private:
  std::shared_ptr<Impl> impl_;
};

// Checks a header without its file: `text` is the JSON, `data_bytes` what follows it. What
// SafetensorsFile uses, alone for tests.
void check_safetensors_header(const std::string& text, uint64_t data_bytes,
                              std::vector<SafetensorsFile::Entry>* entries, Metadata* metadata);

// Writes a safetensors file beside its final name, syncs and renames it: at every moment the
// path holds the old file or the new one, whole. The same tensors give the same bytes.
void save_safetensors(const std::string& path, const std::vector<NamedTensor>& tensors,
                      const Metadata& metadata = {});
std::vector<NamedTensor> load_safetensors(const std::string& path, Device device = {},
                                          Load how = Load::Copy, Metadata* metadata = nullptr);

// What a saved file may hold: None, bool, int, float, str, bytes, tensors, lists, tuples, dicts.
struct Tree {
  struct Item;
  using List = std::vector<Tree>;
  struct Tuple {
    List items;
  };
  struct Dict {
    std::vector<Item> items;
  };
  struct BigInt {  // an integer past 64 bits, in decimal
    std::string digits;
  };
  struct Bytes {
    std::string data;
  };
  std::variant<std::monostate, bool, int64_t, double, std::string, Tensor, List, Tuple, Dict,
               BigInt, Bytes>
      value;
};
struct Tree::Item {
  Tree key, value;
};
inline constexpr int kMaxTreeDepth = 100;
inline constexpr uint64_t kMaxTreeNodes = uint64_t{1} << 22;

// Tensors that share memory (tied weights, views of one buffer) still share it after loading.
// A tensor that requires grad comes back requiring it. A safetensors file of another program
// loads as a Dict of its tensors.
void save_tree(const std::string& path, const Tree& tree);
Tree load_tree(const std::string& path, Device device = {}, Load how = Load::Copy);

// Writes `size` bytes so that `path` holds the old content or the new, whole (as above).
void write_file_atomically(const std::string& path, const void* data, size_t size);

}  // namespace pyflame::io
