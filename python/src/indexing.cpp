// x[...] and x[...] = v: integers, slices, None and Ellipsis become views, the rest goes to
// index() and index_put_().
#include "common.h"
#include "engine/hidden.h"

namespace pyflame::python {

namespace {

struct Indexed {
  Tensor view;         // after the basic part
  TensorList indices;  // empty when there is no advanced part
  // Dimensions of the view whose slice has a negative step: their elements, in the opposite order.
  std::vector<int64_t> reversed;

  // A copy in the order that was asked for, or back; the view itself where nothing is reversed.
  Tensor turned(const Tensor& t) const { return reversed.empty() ? t : flip(t, reversed); }
};

bool is_mask(const Tensor& t) {
  return t->dtype == DType::Bool || t->dtype == DType::UInt8;
}

// Lists, ranges and the like; not what shows its memory, and no text.
bool is_index_list(PyObject* o) {
  if (PyList_Check(o) || PyTuple_Check(o)) return true;
  return !is_tensor(o) && PySequence_Check(o) && !PyUnicode_Check(o) && !PyObject_CheckBuffer(o) &&
         !PyObject_HasAttrString(o, "__array_interface__");
}

// The rule that PyTorch has from old NumPy: a sequence that holds tensors, arrays, sequences,
// slices, None or Ellipsis is meant as a tuple, unless it is as long as a list of positions.
bool means_tuple(PyObject* key) {
  if (PyTuple_Check(key) || !is_index_list(key)) return false;
  constexpr Py_ssize_t kLong = 32;
  const Py_ssize_t n = PySequence_Size(key);
  if (n < 0) throw PythonError();
  if (n >= kLong) return false;
  for (Py_ssize_t i = 0; i < n; ++i) {
    Obj item(check(PySequence_GetItem(key, i)));
    PyObject* o = item.get();
    if (is_tensor(o) || PySlice_Check(o) || o == Py_None || o == Py_Ellipsis ||
        (PySequence_Check(o) && !PyUnicode_Check(o)))
      return true;
  }
  return false;
}

// Anything that becomes an index tensor: tensors, lists, NumPy arrays. Undefined for others.
Tensor index_tensor(PyObject* o, const Tensor& self) {
  Tensor t;
  if (is_tensor(o)) {
    t = tensor_of(o);
  } else if (is_index_list(o) || PyObject_HasAttrString(o, "__array_interface__")) {
    Obj dtype;
    if (is_index_list(o)) {
      const Py_ssize_t n = PySequence_Size(o);
      if (n < 0) throw PythonError();
      if (n == 0) dtype = Obj(wrap(DType::Int64));
    }
    t = tensor_from_data(o, dtype.get(), nullptr, true, "Tensor.__getitem__");
  } else if (PySequence_Check(o) && !PyUnicode_Check(o) && !PyBytes_Check(o)) {
    // array.array, memoryview
    Obj list(check(PySequence_List(o)));
    return index_tensor(list.get(), self);
  } else {
    return {};
  }
  if (!is_integral(t->dtype, true))
    PF_FAIL(IndexError, "Tensor.__getitem__", "got an index tensor of dtype ", t->dtype,
            "; expected integers or bool; cast it with .long() or compare first");
  if (!is_mask(t) && t->dtype != DType::Int64) {
    const bool wraps = t->dtype == DType::UInt64;
    t = to(t, DType::Int64);
    // From 2^63 they would count from the end: they are out of range.
    if (wraps) t = masked_fill(t, lt(t, Scalar(0)), Scalar(INT64_MAX));
  }
  // As in PyTorch, indices may be on the CPU whatever they index.
  const bool apart = !t->floating && !self->floating && t->storage->device != self->storage->device;
  return apart ? move_to(t, self->device()) : t;
}

int consumed(PyObject* o, const Tensor& index) {
  if (o == Py_None || o == Py_Ellipsis || PyBool_Check(o)) return 0;
  if (!index.defined()) return 1;
  return is_mask(index) ? index->shape.size() : 1;
}

void apply_slice(Indexed& r, int dim, PyObject* s) {
  Py_ssize_t start, stop, step;
  if (PySlice_Unpack(s, &start, &stop, &step) < 0) throw PythonError();
  Py_ssize_t length = r.view->shape[dim];
  const Py_ssize_t count = PySlice_AdjustIndices(length, &start, &stop, step);
  if (step < 0) {
    if (count > 1) r.reversed.push_back(dim);
    stop = start + 1;
    start = count ? start + (count - 1) * step : stop;
    step = -step;
  }
  if (start == 0 && stop >= length && step == 1) return;
  r.view = slice(r.view, dim, start, std::max(start, stop), step);
}

Tensor apply_int(const Tensor& t, int dim, int64_t i, int position) {
  const int64_t n = t->shape[dim];
  if (i < -n || i >= n)
    PF_FAIL(IndexError, "Tensor.__getitem__", "got index ", i, " for dimension ", position,
            " of size ", n, "; expected an index from ", -n, " to ", n - 1,
            "; check the index or the shape");
  return select(t, dim, i < 0 ? i + n : i);
}

Indexed apply_key(const Tensor& self, PyObject* key) {
  Indexed r{self, {}, {}};
  Obj tuple;
  if (means_tuple(key)) {
    tuple = Obj(check(PySequence_Tuple(key)));
    key = tuple.get();
  }
  PyObject* single[1] = {key};
  PyObject** items = single;
  Py_ssize_t count = 1;
  if (PyTuple_Check(key)) {
    items = reinterpret_cast<PyTupleObject*>(key)->ob_item;
    count = PyTuple_GET_SIZE(key);
  }
  // First pass: index tensors, and how many dimensions the Ellipsis stands for.
  std::vector<Tensor> tensors(static_cast<size_t>(count));
  int used = 0;
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* o = items[i];
    if (!PyLong_CheckExact(o) && !PySlice_Check(o) && o != Py_None && o != Py_Ellipsis)
      tensors[static_cast<size_t>(i)] = index_tensor(o, self);
    used += consumed(o, tensors[static_cast<size_t>(i)]);
  }
  if (used > self->shape.size())
    PF_FAIL(IndexError, "Tensor.__getitem__", "got ", used, " indices for a tensor of shape ",
            self->shape, "; expected at most ", self->shape.size(), "; drop some");
  int dim = 0;       // of the view
  int position = 0;  // of the tensor as the user sees it, for messages
  bool advanced = false;
  TensorList list;
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* o = items[i];
    const Tensor& index = tensors[static_cast<size_t>(i)];
    if (index.defined()) {
      // A 0-d integer selects, like an int, unless it differs over a vmap.
      if (index->shape.empty() && !is_mask(index) && !engine::is_hidden(index)) {
        r.view = apply_int(r.view, dim, index.item().to_int(), position++);
        continue;
      }
      if (is_mask(index)) {
        const int k = index->shape.size();
        if (k == 0) {
          r.view = unsqueeze(r.view, dim++);
          list.push_back(reshape(index, {1}));
        } else {
          for (int j = 0; j < k; ++j)
            if (index->shape[j] != r.view->shape[dim + j])
              PF_FAIL(IndexError, "Tensor.__getitem__", "got a mask of shape ", index->shape,
                      " at dimension ", position, " of a tensor of shape ", self->shape,
                      "; expected the sizes to agree");
          list.push_back(index);
          dim += k;
          position += k;
        }
      } else {
        list.push_back(index);
        ++dim;
        ++position;
      }
      advanced = true;
    } else if (PyBool_Check(o)) {
      r.view = unsqueeze(r.view, dim++);
      list.push_back(full({1}, Scalar(o == Py_True), DType::Bool, self->storage->device));
      advanced = true;
    } else if (o == Py_None) {
      r.view = unsqueeze(r.view, dim++);
      list.emplace_back();
    } else if (o == Py_Ellipsis) {
      const int skip = self->shape.size() - used;
      used = self->shape.size();  // a later Ellipsis stands for nothing
      for (int j = 0; j < skip; ++j) list.emplace_back();
      dim += skip;
      position += skip;
    } else if (PySlice_Check(o)) {
      apply_slice(r, dim++, o);
      list.emplace_back();
      ++position;
    } else if (is_integer(o)) {
      r.view = apply_int(r.view, dim, to_int64(o, "an index"), position++);
    } else {
      const std::string why = std::string("got an index of type ") + Py_TYPE(o)->tp_name +
                              "; expected integers, slices, None, Ellipsis, integer or bool "
                              "tensors, lists or NumPy arrays";
      // Which of the two is PyTorch's.
      if (PyUnicode_Check(o)) type_error("pf.Tensor.__getitem__: " + why);
      PF_FAIL(IndexError, "Tensor.__getitem__", why);
    }
  }
  if (advanced) {
    while (!list.empty() && !list.back().defined()) list.pop_back();
    r.indices = std::move(list);
  }
  return r;
}

// The right-hand side as a tensor of the destination's dtype and device.
Tensor value_tensor(PyObject* value, const Tensor& like) {
  Scalar s;
  if (is_tensor(value)) {
    const Tensor& t = tensor_of(value);
    if (t->storage->device != like->storage->device && t->shape.empty())
      return move_to(t, like->storage->device);
    return t;
  }
  const Device home = like->storage->device.placed();  // a write happens where the tensor is
  if (to_scalar(value, &s)) return scalar_tensor(s, like->dtype, home);
  Obj dtype(wrap(like->dtype)), device(wrap(home));
  return tensor_from_data(value, dtype.get(), device.get(), true, "Tensor.__setitem__");
}

Tensor drop_leading_ones(const Tensor& v, int ndim) {
  int extra = 0;
  while (v->shape.size() - extra > ndim && v->shape[extra] == 1) ++extra;
  if (!extra) return v;
  std::vector<int64_t> shape(v->shape.begin() + extra, v->shape.end());
  return reshape(v, shape);
}

// view[indices] = value
void assign(Tensor& view, const TensorList& indices, PyObject* value) {
  Scalar s;
  const bool number = !is_tensor(value) && to_scalar(value, &s);
  if (indices.empty()) {
    if (number) {
      fill_(view, s);
    } else {
      copy_(view, drop_leading_ones(value_tensor(value, view), view->shape.size()));
    }
    return;
  }
  if (number && indices.size() == 1 && indices[0].defined() && indices[0]->dtype == DType::Bool &&
      !info(view->dtype).storage_only && find_op("masked_fill_")) {
    // x[mask] = number needs no list of indices: it stays on the device.
    Tensor mask = indices[0];
    while (mask->shape.size() < view->shape.size()) mask = unsqueeze(mask, -1);
    Obj target(check(wrap(view))), m(check(wrap(mask)));
    Obj done(check(call_op("masked_fill_", {target.get(), m.get(), value})));
    return;
  }
  Tensor v = value_tensor(value, view);
  if (v->dtype != view->dtype) v = to(v, view->dtype);
  index_put_(view, indices, v);
}

}  // namespace

PyObject* tensor_subscript(PyObject* o, PyObject* key) {
  const auto plain = [&]() -> PyObject* {
    const Tensor& self = tensor_of(o);
    if (PyLong_CheckExact(key)) {
      if (self->shape.empty())
        PF_FAIL(IndexError, "Tensor.__getitem__",
                "got an index for a 0-d tensor; expected none; use .item() to read its value");
      return wrap(apply_int(self, 0, to_int64(key, "an index"), 0));
    }
    if (!is_tensor(key) && !PySlice_Check(key)) {  // what stands for positions, of a trace say
      static PyObject* func =
          check(PyObject_GetAttrString(reinterpret_cast<PyObject*>(TensorType), "__getitem__"));
      PyObject* args[] = {o, key};
      if (PyObject* r = ask_others(func, args, 2, nullptr)) return r;
    }
    Indexed r = apply_key(self, key);
    r.view = r.turned(r.view);
    if (!r.indices.empty()) return wrap(index(r.view, r.indices));
    if (r.view.impl() == self.impl()) r.view = view(self, self->shape.vec());
    return wrap(std::move(r.view));
  };
  return guarded([&] { return keeping("__getitem__", {o, key}, plain); });
}

int tensor_assign_subscript(PyObject* o, PyObject* key, PyObject* value) {
  const auto plain = [&]() -> PyObject* {
    Indexed r = apply_key(tensor_of(o), key);
    Tensor target = r.turned(r.view);
    assign(target, r.indices, value);
    if (!r.reversed.empty()) copy_(r.view, r.turned(target));
    Py_RETURN_NONE;
  };
  return guarded_int([&] {
    if (!value) type_error("elements of a tensor cannot be deleted");
    Obj done(check(keeping("__setitem__", {o, key, value}, plain)));
    return 0;
  });
}

}  // namespace pyflame::python
