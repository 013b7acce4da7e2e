// Nodes of the tape as objects of Python.
#pragma once

#include <string>

#include "common.h"
#include "engine/autograd.h"

namespace pyflame::python {

// "layer_norm" -> "LayerNormBackward0", as people know it from PyTorch.
std::string display_name(const autograd::Node&);
// The object of a node, the same one as long as it lives; its class has the node's name. None for
// null.
PyObject* wrap(Ref<autograd::Node>);
bool is_node(PyObject*);
const Ref<autograd::Node>& node_of(PyObject*);
// A handle with remove() for the hook `id` of a tensor or a node.
PyObject* hook_handle(PyObject* owner, int64_t id);

}  // namespace pyflame::python
