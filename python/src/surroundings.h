// What a captured function can reach of Python's, and how it was.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common.h"

namespace pyflame::python {

// The memory of an array, as it was: of NumPy's, array.array, bytearray and whatever else shows its
// elements to others.
class Elements {
 public:
  // Of an array of more than `most` bytes some elements are looked at, from its first to its last;
  // if `most` is negative, its shape alone.
  Elements(PyObject* array, Py_ssize_t most);
  bool are_those_of(PyObject* array) const;
  bool holds_objects() const { return format_.find('O') != std::string::npos; }

 private:
  bool shown_ = false;  // or told as bytes, as NumPy's dates
  Py_ssize_t most_, itemsize_ = 0;
  std::string format_;
  std::vector<Py_ssize_t> shape_, strides_;
  std::string bytes_;
};

// Contents of lists, dicts, sets and arrays, variables of closures and names of modules, as they
// were when this was made. Asked at each replay, so it costs some nanoseconds a value, and 0.1 us
// an array.
class Surroundings {
 public:
  // `of`: a list of (how, container, keys). "items": a list or a tuple. "sequence": any other.
  // "entries": a dict. "attributes": of a mapping, these keys, and how many there are. "names":
  // these keys alone, of any mapping or class. "slots": of an object, these attributes. "cells": a
  // closure, whose variables these are. "size": a set; where a frozenset is given for keys, those
  // are in it. "elements": an array, of which at most `keys` bytes are looked at. "objects": an
  // array of objects. "function": its code and defaults. `plain`: classes of numbers, texts and the
  // like, of which two objects may be the same value. `most`: values that are looked at of one
  // container.
  Surroundings(nb::list of, nb::tuple plain, Py_ssize_t most);
  void add(nb::list of);
  Surroundings(const Surroundings&) = delete;
  Surroundings& operator=(const Surroundings&) = delete;
  ~Surroundings() { clear(); }

  struct Change {
    Py_ssize_t place = -1;    // number of the container; -1: all is as it was
    PyObject* key = nullptr;  // none where the container has more or less in it
  };
  // A tensor, a list or any other object is as it was while it is the same one; what is plain while
  // it is equal.
  Change changed() const;

  int traverse(visitproc visit, void* arg) const;
  void clear();

 private:
  enum How : uint8_t {
    Items,
    Sequence,
    Entries,
    Attributes,
    Names,
    Slots,
    Cells,
    Size,
    Bytes,
    Objects,
    Function
  };
  struct Value {
    PyObject *key, *then;  // a tensor is not owned: it may end
    bool owned;
  };
  struct Place {
    How how;
    PyObject* owner;
    Py_ssize_t size;
    std::vector<Value> values;
    std::unique_ptr<Elements> elements;
    bool sized() const { return how != Names && how != Slots && how != Cells && how != Function; }
  };
  bool same(PyObject* now, PyObject* then) const;
  template <class F>
  void each(const Place& p, F&& f) const;
  std::vector<Place> places_;
  nb::tuple plain_;
  Py_ssize_t most_;
};

// Whether hooks are to see the gradient of a leaf.
bool has_hooks(const Tensor&);

// Whether hooks of saved tensors are to see those of this thread.
bool saves_hooked();

void init_surroundings(nb::module_& m);

}  // namespace pyflame::python
