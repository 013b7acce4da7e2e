// What a captured function can reach of Python's, and how it was.
#pragma once

#include <vector>

#include "common.h"

namespace pyflame::python {

// Contents of lists, dicts and sets, variables of closures and names of modules, as they were when
// this was made. Asked at each replay, so it costs some nanoseconds a value.
class Surroundings {
 public:
  // `of`: a list of (how, container, keys). "items": a list or a tuple. "entries": a dict.
  // "attributes": of a dict, these keys, and how many there are. "names": these keys alone, of any
  // mapping. "cells": a closure, whose variables these are. "size": a set. `plain`: classes of
  // numbers, texts and the like, of which two objects may be the same value. `most`: values that
  // are looked at of one container.
  Surroundings(nb::list of, nb::tuple plain, Py_ssize_t most);
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
  enum How : uint8_t { Items, Entries, Attributes, Names, Cells, Size };
  struct Value {
    PyObject *key, *then;  // a tensor is not owned: it may end
    bool owned;
  };
  struct Place {
    How how;
    PyObject* owner;
    Py_ssize_t size;
    std::vector<Value> values;
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
