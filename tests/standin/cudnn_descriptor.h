// Descriptors of the stand-in for cuDNN: attributes as they were given.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <map>
#include <vector>

namespace {

enum : int { kTypeFloat = 4, kTypeDouble = 5, kTypeDescriptor = 15 };
enum : int { kGood = 3 };  // an engine

struct Handle {
  void* stream = nullptr;
};
struct Descriptor {
  int kind;
  bool finished = false;
  struct Value {
    int type;
    int64_t count;
    std::vector<char> bytes;
  };
  std::map<int, Value> values;
  int engine = kGood;  // of a configuration

  template <class T>
  const T* at(int name) const {
    return reinterpret_cast<const T*>(values.at(name).bytes.data());
  }
  const Descriptor& part(int name, int64_t i = 0) const { return *at<const Descriptor*>(name)[i]; }
  bool has(std::initializer_list<int> names) const {
    for (int n : names)
      if (!values.count(n)) return false;
    return true;
  }
};

size_t bytes_of(int type) {
  if (type == 2) return 1;
  for (int four : {1, 4, 7, 8, 11, 14, 18})
    if (type == four) return 4;
  return 8;
}

}  // namespace
