// What a call from Python gives: values of operations as Python objects, and what the keywords that
// any operation takes (out=, requires_grad=, ...) make of them.
#pragma once

#include <vector>

#include "common.h"
#include "table/schema.h"

namespace pyflame::python {

// Keywords that PyTorch has everywhere and that are not part of a row's schema.
struct Extras {
  bool requires_grad = false;
  bool pin_memory = false;
  bool fresh = false;     // the operation has no tensors: its values may go into any dtype
  bool recorded = false;  // what is given to out= would have a gradient
  bool exact = false;     // out= has the result's dtype, or is refused
  PyObject* out = nullptr;
  PyObject* generator = nullptr;
  PyObject* memory_format = nullptr;
  bool change_results() const { return requires_grad || pin_memory || out || memory_format; }
};

// New reference. `kept` is where the caller keeps the class that named results of the schema have.
PyObject* to_python(const table::Schema&, ops::Value&, PyTypeObject** kept);
// An error where a tensor of out= must not be written with these arguments.
void check_out(const table::Schema&, const std::vector<ops::Value>& arguments, const Extras&);
// Whether out= of an operation (its family: a heading of the documentation) has to have the
// result's dtype.
bool wants_exact_out(const std::string& family, const table::Schema&);
// Whether results of float dtypes have a gradient that out= would lose.
bool wants_gradient(const table::Schema&, const std::vector<ops::Value>& arguments);
// The result (stolen) as the keywords want it; out= itself, written.
PyObject* finish(PyObject* result, const Extras&);
// Name of an operation -> the class of its named results, of all that have some.
nb::dict return_types();

}  // namespace pyflame::python
