// Files: safetensors, and trees of Python-like values in one safetensors file. Nothing that is
// read can run code, and every size is checked against the file before memory is taken for it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
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
// Where a file goes that has no name: called with its bytes in order. It throws to stop.
using Sink = std::function<void(const void* data, size_t size)>;
// A whole file in memory of the caller, who keeps it while it is read. `name` stands in errors.
struct Memory {
  std::string name;
  const void* data;
  size_t size;
};

// Copy reads the values into fresh memory. Map shows the pages of the file itself (CPU only; a
// write goes to a private copy of the page): fast to open, but the file must not be truncated
// by others while a tensor lives.
enum class Load : uint8_t { Copy, Map };

// A safetensors file, opened and wholly checked: header, shapes, offsets. FileError otherwise; it
// names the format of files that are something else. Tensors of a dtype that PyFlame lacks cannot
// be read, the others of the file can. The file stays open as long as this object or a mapped
// tensor lives.
class SafetensorsFile {
 public:
  struct Entry {
    std::string name;
    DType dtype;
    Dims shape;
    uint64_t begin;  // bytes from the start of the data
    uint64_t end;
    // What the file calls a dtype that PyFlame lacks; `dtype` means nothing then.
    std::string unknown = {};
  };

  explicit SafetensorsFile(const std::string& path);
  explicit SafetensorsFile(const Memory& memory);
  const std::string& path() const;
  const std::vector<Entry>& entries() const;  // in the order of the data
  const Metadata& metadata() const;
  const Entry* find(const std::string& name) const;  // null when there is none
  Tensor tensor(const Entry&, Load how = Load::Copy, Device device = {}) const;

  struct Impl;

 private:
  std::shared_ptr<Impl> impl_;
};

// How many bytes of data follow a header, for streams; FileError when the header is damaged.
uint64_t safetensors_data_bytes(std::string_view header, const std::string& name);

// Writes a safetensors file beside its final name, syncs and renames it: at every moment the
// path holds the old file or the new one, whole. The same tensors give the same bytes.
void save_safetensors(const std::string& path, const std::vector<NamedTensor>& tensors,
                      const Metadata& metadata = {});
void save_safetensors(const Sink& sink, const std::vector<NamedTensor>& tensors,
                      const Metadata& metadata = {});
std::vector<NamedTensor> load_safetensors(const std::string& path, Device device = {},
                                          Load how = Load::Copy, Metadata* metadata = nullptr);

// What a saved file may hold: None, bool, int, float, str, bytes, tensors, lists, tuples, dicts,
// and values of other types, which are a type's name and a plain value to make one of.
struct Tree {
  struct Item;
  using List = std::vector<Tree>;
  struct Tuple {
    List items;
  };
  struct Dict {
    std::vector<Item> items;
  };
  struct BigInt {  // an integer past 64 bits, in decimal, or in hexadecimal with 0x (and -)
    std::string digits;
  };
  struct Bytes {
    std::string data;
  };
  struct Typed {  // the reader knows what `type` means, or refuses it: no code comes from a file
    std::string type;
    List of;  // one value, not Typed itself
  };
  std::variant<std::monostate, bool, int64_t, double, std::string, Tensor, List, Tuple, Dict,
               BigInt, Bytes, Typed>
      value;
};
struct Tree::Item {
  Tree key, value;
};
inline constexpr int kMaxTreeDepth = 100;
inline constexpr uint64_t kMaxTreeNodes = uint64_t{1} << 23;

// Tensors that share memory (tied weights, views of one buffer) still share it after loading.
// A tensor that requires grad comes back requiring it. A safetensors file of another program
// loads as a Dict of its tensors.
void save_tree(const std::string& path, const Tree& tree);
void save_tree(const Sink& sink, const Tree& tree);

// Where tensors of a tree go. With `place`, each one that the file holds (views are made of it
// later) is loaded to the CPU and handed to it; what it returns has the same shape and dtype.
struct Placing {
  Device device = {};
  Load how = Load::Copy;
  std::function<Tensor(const Tensor&)> place = {};
};
Tree load_tree(const std::string& path, const Placing& placing);
Tree load_tree(const Memory& memory, const Placing& placing);
Tree load_tree(const std::string& path, Device device = {}, Load how = Load::Copy);

// Writes `size` bytes so that `path` holds the old content or the new, whole (as above).
void write_file_atomically(const std::string& path, const void* data, size_t size);

}  // namespace pyflame::io
