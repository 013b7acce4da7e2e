// Recurrent layers: RNN with tanh or relu, LSTM (with projections) and GRU, of several layers, one
// or both ways, over padded or packed sequences. The products with the input are made for all steps
// at once. The steps of a layer are a kernel (table/kernels/recurrent.h); gradients of gradients,
// and layers without elements, are made of operations.
#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "core/tensor_impl.h"
#include "engine/autograd.h"
#include "ops/autocast.h"
#include "ops/building_blocks.h"
#include "ops/functions.h"
#include "ops/registry.h"
#include "table/kernels/recurrent.h"

namespace pyflame {
namespace {

using autograd::Context;
using autograd::Grads;
using autograd::Saved;

using Mode = kernels::RecurrentMode;

// What one layer has for one direction; what it has not is undefined.
struct Weights {
  Tensor ih, hh, bias_ih, bias_hh, projection;
};
struct State {
  Tensor h, c;  // c: of an LSTM
};

// ---- one step -----------------------------------------------------------------------------------

// `x` is the product with the input, with its bias; for all but a GRU with that of the state, too.
State step(Mode mode, const Tensor& x, const State& s, const Weights& w) {
  if (mode == Mode::Gru) {
    const TensorList a = chunk(x, 3, -1), b = chunk(linear(s.h, w.hh, w.bias_hh), 3, -1);
    const Tensor reset = sigmoid(add(a[0], b[0])), keep = sigmoid(add(a[1], b[1]));
    const Tensor fresh = tanh(add(a[2], mul(reset, b[2])));
    return {add(fresh, mul(keep, sub(s.h, fresh))), {}};
  }
  const Tensor of_state = linear(s.h, w.hh);
  if (mode == Mode::Tanh) return {tanh(add(of_state, x)), {}};
  if (mode == Mode::Relu) return {relu(add(of_state, x)), {}};
  // Added up gate by gate: in the program that has the gates, not in one of four times their size.
  const TensorList a = chunk(x, 4, -1), b = chunk(of_state, 4, -1);
  const Tensor in = sigmoid(add(a[0], b[0])), forget = sigmoid(add(a[1], b[1]));
  const Tensor fresh = tanh(add(a[2], b[2])), out = sigmoid(add(a[3], b[3]));
  const Tensor c = add(mul(forget, s.c), mul(in, fresh));
  const Tensor h = mul(out, tanh(c));
  return {w.projection.defined() ? linear(h, w.projection) : h, c};
}
Tensor products_of_input(Mode mode, const Tensor& x, const Weights& w) {
  if (mode == Mode::Gru || !w.bias_hh.defined()) return linear(x, w.ih, w.bias_ih);
  return linear(x, w.ih, w.bias_ih.defined() ? add(w.bias_ih, w.bias_hh) : w.bias_hh);
}

void check_weights(Mode mode, const Weights& w, const Tensor& input, const State& s,
                   const char* op) {
  for (const Tensor* t : {&w.ih, &w.hh, &s.h}) ops::check_defined(*t, op);
  if (mode == Mode::Lstm) ops::check_defined(s.c, op);
  for (const Tensor* t : {&w.ih, &w.hh, &w.bias_ih, &w.bias_hh, &w.projection, &s.h, &s.c})
    PF_CHECK(!t->defined() || (*t)->dtype == input->dtype, DTypeError, op, "got a tensor of ",
             (*t)->dtype, " beside an input of ", input->dtype,
             "; expected one dtype; convert the input, the state or the layer with .to(dtype)");
  const Tensor& wide = s.c.defined() ? s.c : s.h;
  const int64_t hidden = wide->shape.back(), rows = kernels::gates_of(mode) * hidden;
  const auto fits = [&](const Tensor& t, const Dims& want, const char* name) {
    PF_CHECK(!t.defined() || t->shape == want, ShapeError, op, "got ", name, " of shape ",
             t.defined() ? t->shape : Dims{}, "; expected ", want, " for a hidden size of ", hidden,
             " and inputs of ", input->shape.back(), "; check the sizes of the layer");
  };
  fits(w.ih, {rows, input->shape.back()}, "weight_ih");
  fits(w.hh, {rows, s.h->shape.back()}, "weight_hh");
  fits(w.bias_ih, {rows}, "bias_ih");
  fits(w.bias_hh, {rows}, "bias_hh");
  fits(w.projection, {s.h->shape.back(), hidden}, "weight_hr");
}

// ---- a layer ------------------------------------------------------------------------------------

// Over time: how many sequences have each step. Packed: the rows of all steps lie one behind the
// other, else they are [steps, batch, ...].
struct Time {
  std::vector<int64_t> rows;
  bool packed;
};

// One layer in one direction, from its products with the input; `last` gets the state behind the
// last step of each sequence.
Tensor run(Mode mode, const Tensor& x, const State& first, const Weights& w, const Time& time,
           bool backwards, State& last) {
  const TensorList parts = time.packed ? split(x, time.rows, 0) : unbind(x, 0);
  const size_t steps = parts.size();
  const auto each = [&](const State& s, auto&& fn) {
    return State{fn(s.h, first.h), s.c.defined() ? fn(s.c, first.c) : Tensor()};
  };
  TensorList out(steps), ended_h, ended_c;
  State s = first;
  int64_t now = time.rows[backwards ? steps - 1 : 0];
  if (now != s.h->shape[0])
    s = each(s, [&](const Tensor& t, const Tensor&) { return narrow(t, 0, 0, now); });
  for (size_t i = 0; i < steps; ++i) {
    const size_t t = backwards ? steps - 1 - i : i;
    const int64_t rows = time.rows[t];
    if (rows < now) {  // the shortest sequences have ended
      ended_h.push_back(narrow(s.h, 0, rows, now - rows));
      if (s.c.defined()) ended_c.push_back(narrow(s.c, 0, rows, now - rows));
      s = each(s, [&](const Tensor& v, const Tensor&) { return narrow(v, 0, 0, rows); });
    } else if (rows > now) {  // seen from the end, shorter ones begin
      s = each(s, [&](const Tensor& v, const Tensor& start) {
        return cat({v, narrow(start, 0, now, rows - now)}, 0);
      });
    }
    now = rows;
    s = step(mode, parts[t], s, w);
    out[t] = s.h;
  }
  const auto joined = [](const Tensor& t, TensorList& ended) {
    if (ended.empty()) return t;
    ended.push_back(t);
    std::reverse(ended.begin(), ended.end());
    return cat(ended, 0);
  };
  last = {joined(s.h, ended_h), s.c.defined() ? joined(s.c, ended_c) : Tensor()};
  return time.packed ? cat(out, 0) : stack(out, 0);
}

// ---- a layer as one kernel ----------------------------------------------------------------------

// Autograd alone would make a product of the size of the weights for each step, and add them up.
// Here the steps are one node, whose backward has the gradients of what goes into all gates: those
// of the weights are one product of it. With create_graph the steps are made again of operations.

// What the layer's node is made of; x is the products with the input.
struct Parts {
  Tensor x;
  State first;
  Tensor weight, bias, projection;  // of the state; the bias of a GRU

  TensorList all() const { return {x, first.h, first.c, weight, bias, projection}; }
};

Grads through_operations(const Context& c, Mode mode, const Parts& p, const Time& time,
                         bool backwards) {
  // By names of their own: two of them may be one tensor.
  TensorList parts = p.all(), of, outs, grads;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (!c.needs(i)) continue;
    parts[i] = transpose(parts[i], 0, 0);
    of.push_back(parts[i]);
  }
  State last;
  const Tensor out = run(mode, parts[0], {parts[1], parts[2]},
                         {{}, parts[3], {}, parts[4], parts[5]}, time, backwards, last);
  const TensorList results{out, last.h, last.c};
  for (size_t i = 0; i < c.grads.size(); ++i) {
    if (!c.grad(i).defined()) continue;
    outs.push_back(results[i]);
    grads.push_back(c.grad(i));
  }
  const TensorList found = grad(outs, of, grads, true, true, true);
  Grads r(parts.size());
  for (size_t i = 0, next = 0; i < r.size(); ++i)
    if (c.needs(i)) r[i] = found[next++];
  return r;
}

// A kernel whose numbers have the rows of each step behind them.
template <class K>
void call_kernel(const typename K::template Tensors<Tensor>& tensors,
                 std::span<const Scalar> numbers, const char* op, int8_t keeps = -1) {
  constexpr size_t count = kernels::kCount<K::template Tensors>, outputs = K::kInfo.outputs;
  const Tensor* t = kernels::members<K::template Tensors>(tensors);
  engine::call(engine::kernel<K>(), {t, outputs}, {t + outputs, count - outputs}, numbers,
               {.op = op, .keeps = keeps});
}

// Rows of the states, which lie as kernels::RecurrentTime says.
Tensor rows_from(const Tensor& states, int64_t first, int64_t rows) {
  const Dims shape{rows, states->shape[1]};
  return make_view(states, shape, contiguous_strides(shape), first * shape[1]);
}
template <class F>
Tensor rows_at(const Tensor& states, int64_t rows, F&& fill) {
  std::vector<int64_t> index;
  index.reserve(static_cast<size_t>(rows));
  fill(index);
  return index_select(states, 0, from_host(index.data(), {rows}, DType::Int64, states->device()));
}
// The states behind the steps, or before them, one for each row of the input.
Tensor states_of_steps(const Tensor& states, const kernels::RecurrentTime& time, bool behind) {
  const bool later = behind != time.backwards;
  if (later || time.even()) return rows_from(states, later ? time.batch : 0, time.total());
  return rows_at(states, time.total(), [&](std::vector<int64_t>& index) {
    for (int64_t t = 0; t < time.steps; ++t)
      for (int64_t r = 0; r < time.rows(t); ++r) index.push_back(time.place(t) + r);
  });
}
// The states behind each sequence's last step to run.
Tensor last_states(const Tensor& states, const kernels::RecurrentTime& time) {
  if (time.backwards || time.even())
    return rows_from(states, time.backwards ? 0 : time.place(time.steps), time.batch);
  return rows_at(states, time.batch, [&](std::vector<int64_t>& index) {
    for (int64_t b = 0, length = time.steps; b < time.batch; ++b) {
      while (time.rows(length - 1) <= b) --length;
      index.push_back(time.place(length) + b);
    }
  });
}

Tensor run_as_one(Mode mode, const Parts& p, const Time& time, bool backwards, State& last,
                  const char* op) {
  const Tensor& x = p.x;
  const kernels::RecurrentTime order(time.rows, backwards);
  const bool lstm = mode == Mode::Lstm, biased = p.bias.defined(),
             projected = p.projection.defined();
  const int64_t batch = order.batch, total = order.total(), out_size = p.first.h->shape[1],
                hidden = lstm ? p.first.c->shape[1] : out_size;
  const TensorList parts = p.all();
  const bool wanted = autograd::wanted(parts);
  const auto made = [like = x->dtype, device = x->device()](bool there, const Dims& shape) {
    return make_tensor(there ? shape : Dims{0}, like, device);
  };
  const Tensor h = made(true, {batch + total, out_size}), c = made(lstm, {batch + total, hidden}),
               kept = made(wanted && (lstm || mode == Mode::Gru), {total, 4 * hidden}),
               wide = made(projected, {total, hidden});
  std::vector<Scalar> numbers{static_cast<int64_t>(mode), int64_t{backwards}};
  numbers.insert(numbers.end(), time.rows.begin(), time.rows.end());
  call_kernel<kernels::Recurrent>(
      {h, c, kept, wide, x, p.first.h, p.weight, p.first.c, p.bias, p.projection}, numbers, op,
      // Weights of calls without gradients stay for long, more likely than not.
      wanted ? int8_t{-1} : int8_t{kernels::tensors<kernels::Recurrent>.weight});
  // As a step's results lie: a row each, or the batch.
  IntList shape(x->shape.begin(), x->shape.end());
  shape.back() = out_size;
  const Tensor out = reshape(states_of_steps(h, order, true), shape);
  last = {last_states(h, order), lstm ? last_states(c, order) : Tensor()};
  if (!wanted) return out;

  std::vector<Saved> saved{Saved(h), Saved(c),        Saved(kept),     Saved(wide),
                           Saved(x), Saved(p.weight), Saved(p.first.h)};
  for (const Tensor* t : {&p.first.c, &p.bias, &p.projection})
    if (t->defined()) saved.emplace_back(*t);
  const auto backward = [=, x_shape = x->shape](const Context& n) -> Grads {
    const Tensor h = n.saved(0), weight = n.saved(5);
    const Tensor projection = projected ? n.saved(8) : Tensor();  // an LSTM's; so is a cell
    if (grad_enabled()) {
      const State first{n.saved(6), lstm ? n.saved(7) : Tensor()};
      return through_operations(
          n, mode, {n.saved(4), first, weight, biased ? n.saved(7) : Tensor(), projection}, time,
          backwards);
    }
    const int64_t gates = kernels::gates_of(mode) * hidden;
    const Tensor dx = made(true, x_shape), dstate = made(mode == Mode::Gru, x_shape),
                 dfirst = made(true, {batch, out_size}), dcell = made(lstm, {batch, hidden}),
                 dh = made(projected, {total, out_size});
    call_kernel<kernels::RecurrentBackward>(
        {dx, dstate, dfirst, dcell, dh, h, n.saved(1), n.saved(2), weight, projection, n.grad(0),
         n.grad(1), lstm ? n.grad(2) : Tensor()},
        numbers, op);
    Grads r{dx, dfirst, lstm ? dcell : Tensor(), {}, {}, {}};
    const Tensor all = reshape(mode == Mode::Gru ? dstate : dx, {total, gates});
    if (n.needs(3)) r[3] = matmul(transpose(all, 0, 1), states_of_steps(h, order, false));
    if (biased && n.needs(4)) r[4] = sum(all, IntList{0});
    if (projected && n.needs(5)) r[5] = matmul(transpose(dh, 0, 1), n.saved(3));
    return r;
  };
  TensorList results{out, last.h};
  if (lstm) results.push_back(last.c);
  autograd::attach(op, std::span<const Tensor>(results), std::span<const Tensor>(parts),
                   std::move(saved), backward);
  return out;
}

struct Layers {
  bool has_biases;
  int64_t num_layers;
  double dropout;
  bool train, bidirectional;
};

// Output and the last states, [layers * directions, batch, hidden].
TensorList all_layers(Mode mode, Tensor x, const TensorList& hx, const TensorList& params,
                      const Layers& how, const Time& time, const char* op) {
  const bool lstm = mode == Mode::Lstm;
  const int64_t directions = how.bidirectional ? 2 : 1;
  PF_CHECK(hx.size() == (lstm ? 2 : 1), ValueError, op, "got ", hx.size(),
           " tensors in hx; expected (h, c); pass both");
  PF_CHECK(how.num_layers > 0, ValueError, op, "got num_layers ", how.num_layers,
           "; expected at least 1; pass the number of layers");
  PF_CHECK(how.dropout >= 0 && how.dropout <= 1, ValueError, op, "got dropout ", how.dropout,
           "; expected a probability; pass a number from 0 to 1");
  for (const Tensor& t : hx) {
    ops::check_defined(t, op);
    PF_CHECK(t->shape.size() == 3 && t->shape[0] == how.num_layers * directions &&
                 t->shape[1] == time.rows[0],
             ShapeError, op, "got a state of shape ", t->shape, "; expected [",
             how.num_layers * directions, ", ", time.rows[0],
             ", hidden size]: layers times directions, and the batch; check hx");
  }
  const bool projected = lstm && hx[0]->shape[2] != hx[1]->shape[2];
  const size_t of_each = 2 + (how.has_biases ? 2 : 0) + (projected ? 1 : 0);
  PF_CHECK(params.size() % of_each == 0 &&
               params.size() / of_each == static_cast<size_t>(how.num_layers * directions),
           ValueError, op, "got ", params.size(), " weights; expected ", of_each, " for each of ",
           how.num_layers, " layers and ", directions,
           " directions; check has_biases, num_layers and bidirectional");
  const TensorList h0 = unbind(hx[0], 0), c0 = lstm ? unbind(hx[1], 0) : TensorList();
  TensorList hn, cn;
  auto param = params.begin();
  for (int64_t layer = 0; layer < how.num_layers; ++layer) {
    TensorList outs;
    for (int64_t d = 0; d < directions; ++d) {
      Weights w{param[0], param[1], {}, {}, {}};
      param += 2;
      if (how.has_biases) {
        w.bias_ih = param[0], w.bias_hh = param[1];
        param += 2;
      }
      if (projected) w.projection = *param++;
      const size_t at = hn.size();
      const State first{h0[at], lstm ? c0[at] : Tensor()};
      check_weights(mode, w, x, first, op);
      State last;
      const Tensor products = products_of_input(mode, x, w);
      const Parts parts{products, first, w.hh, mode == Mode::Gru ? w.bias_hh : Tensor(),
                        w.projection};
      outs.push_back(products->numel > 0 ? run_as_one(mode, parts, time, d == 1, last, op)
                                         : run(mode, products, first, w, time, d == 1, last));
      hn.push_back(last.h);
      if (lstm) cn.push_back(last.c);
    }
    x = outs.size() == 1 ? outs[0] : cat(outs, -1);
    if (how.train && how.dropout > 0 && layer + 1 < how.num_layers) x = dropout(x, how.dropout);
  }
  TensorList r{x, stack(hn, 0)};
  if (lstm) r.push_back(stack(cn, 0));
  return r;
}

void check_input(const Tensor& input, int dims, const char* op) {
  ops::check_defined(input, op);
  PF_CHECK(is_float(input->dtype), DTypeError, op, "got an input of ", input->dtype,
           "; expected a float dtype; convert with .to(pyflame.float32)");
  PF_CHECK(input->shape.size() == dims, ShapeError, op, "got an input of shape ", input->shape,
           "; expected ", dims, " dimensions; add the batch with unsqueeze");
}

TensorList padded(Mode mode, const Tensor& input, const TensorList& hx, const TensorList& params,
                  const Layers& how, bool batch_first, const char* op) {
  check_input(input, 3, op);
  const Tensor x = batch_first ? transpose(input, 0, 1) : input;
  PF_CHECK(x->shape[0] > 0, ShapeError, op, "got an input of shape ", input->shape,
           ", of no steps; expected at least one; leave empty sequences out");
  const Time time{std::vector<int64_t>(static_cast<size_t>(x->shape[0]), x->shape[1]), false};
  TensorList r = all_layers(mode, x, hx, params, how, time, op);
  if (batch_first) r[0] = transpose(r[0], 0, 1);
  return r;
}

TensorList packed(Mode mode, const Tensor& data, const Tensor& batch_sizes, const TensorList& hx,
                  const TensorList& params, const Layers& how, const char* op) {
  check_input(data, 2, op);
  ops::check_defined(batch_sizes, op);
  PF_CHECK(batch_sizes->shape.size() == 1 && batch_sizes->numel > 0 &&
               batch_sizes->dtype == DType::Int64,
           ShapeError, op, "got batch_sizes of shape ", batch_sizes->shape, " and dtype ",
           batch_sizes->dtype,
           "; expected int64 numbers, one for each step; use pack_padded_sequence");
  Time time{batch_sizes.to_vector<int64_t>(), true};
  int64_t total = 0, before = data->shape[0];
  for (const int64_t n : time.rows) {
    PF_CHECK(n > 0 && n <= before, ValueError, op, "got batch_sizes with ", n, " behind ", before,
             "; expected numbers above 0 that do not grow; use pack_padded_sequence");
    total += before = n;
    PF_CHECK(total <= data->shape[0], ShapeError, op, "got batch_sizes for more than the ",
             data->shape[0], " rows of data; expected as many; use pack_padded_sequence");
  }
  PF_CHECK(total == data->shape[0], ShapeError, op, "got ", data->shape[0],
           " rows of data and batch_sizes for ", total,
           "; expected as many; use pack_padded_sequence");
  return all_layers(mode, data, hx, params, how, time, op);
}

// ---- what is called -----------------------------------------------------------------------------

using Two = std::pair<Tensor, Tensor>;

TensorList lstm(const Tensor& input, const TensorList& hx, const TensorList& params,
                bool has_biases, int64_t num_layers, double dropout, bool train, bool bidirectional,
                bool batch_first) {
  PF_AUTOCAST("lstm", Lower, lstm, input, hx, params, has_biases, num_layers, dropout, train,
              bidirectional, batch_first);
  return padded(Mode::Lstm, input, hx, params,
                {has_biases, num_layers, dropout, train, bidirectional}, batch_first, "lstm");
}
TensorList lstm_packed(const Tensor& data, const Tensor& batch_sizes, const TensorList& hx,
                       const TensorList& params, bool has_biases, int64_t num_layers,
                       double dropout, bool train, bool bidirectional) {
  PF_AUTOCAST("lstm", Lower, lstm_packed, data, batch_sizes, hx, params, has_biases, num_layers,
              dropout, train, bidirectional);
  return packed(Mode::Lstm, data, batch_sizes, hx, params,
                {has_biases, num_layers, dropout, train, bidirectional}, "lstm");
}

// A step by itself, over [batch, ...] or one example.
State cell(Mode mode, const Tensor& input, const State& s, const Weights& w, const char* op) {
  ops::check_defined(input, op);
  check_input(input, input->shape.size() == 1 ? 1 : 2, op);
  for (const Tensor* t : {&s.h, &s.c}) {
    if (!t->defined()) continue;
    PF_CHECK((*t)->shape.size() == input->shape.size() &&
                 (input->shape.size() == 1 || (*t)->shape[0] == input->shape[0]) &&
                 (*t)->shape.back() == (s.c.defined() ? s.c : s.h)->shape.back(),
             ShapeError, op, "got a state of shape ", (*t)->shape, " for an input of shape ",
             input->shape, "; expected [batch, hidden size] with the batch of the input; check hx");
  }
  check_weights(mode, w, input, s, op);
  return step(mode, products_of_input(mode, input, w), s, w);
}
Two lstm_cell(const Tensor& input, const TensorList& hx, const Tensor& w_ih, const Tensor& w_hh,
              const Tensor& b_ih, const Tensor& b_hh) {
  PF_AUTOCAST("lstm_cell", Lower, lstm_cell, input, hx, w_ih, w_hh, b_ih, b_hh);
  PF_CHECK(hx.size() == 2, ValueError, "lstm_cell", "got ", hx.size(),
           " tensors in hx; expected (h, c); pass both");
  for (const Tensor& t : hx) ops::check_defined(t, "lstm_cell");
  State s = cell(Mode::Lstm, input, {hx[0], hx[1]}, {w_ih, w_hh, b_ih, b_hh, {}}, "lstm_cell");
  return {s.h, s.c};
}

#define PF_RECURRENT(NAME, MODE)                                                                   \
  Two NAME(const Tensor& input, const Tensor& hx, const TensorList& params, bool has_biases,       \
           int64_t num_layers, double dropout, bool train, bool bidirectional, bool batch_first) { \
    PF_AUTOCAST(#NAME, Lower, NAME, input, hx, params, has_biases, num_layers, dropout, train,     \
                bidirectional, batch_first);                                                       \
    const TensorList r =                                                                           \
        padded(Mode::MODE, input, {hx}, params,                                                    \
               {has_biases, num_layers, dropout, train, bidirectional}, batch_first, #NAME);       \
    return {r[0], r[1]};                                                                           \
  }                                                                                                \
  Two NAME##_packed(const Tensor& data, const Tensor& batch_sizes, const Tensor& hx,               \
                    const TensorList& params, bool has_biases, int64_t num_layers, double dropout, \
                    bool train, bool bidirectional) {                                              \
    PF_AUTOCAST(#NAME, Lower, NAME##_packed, data, batch_sizes, hx, params, has_biases,            \
                num_layers, dropout, train, bidirectional);                                        \
    const TensorList r = packed(Mode::MODE, data, batch_sizes, {hx}, params,                       \
                                {has_biases, num_layers, dropout, train, bidirectional}, #NAME);   \
    return {r[0], r[1]};                                                                           \
  }                                                                                                \
  Tensor NAME##_cell(const Tensor& input, const Tensor& hx, const Tensor& w_ih,                    \
                     const Tensor& w_hh, const Tensor& b_ih, const Tensor& b_hh) {                 \
    PF_AUTOCAST(#NAME "_cell", Lower, NAME##_cell, input, hx, w_ih, w_hh, b_ih, b_hh);             \
    ops::check_defined(hx, #NAME "_cell");                                                         \
    return cell(Mode::MODE, input, {hx, {}}, {w_ih, w_hh, b_ih, b_hh, {}}, #NAME "_cell").h;       \
  }
PF_RECURRENT(gru, Gru)
PF_RECURRENT(rnn_tanh, Tanh)
PF_RECURRENT(rnn_relu, Relu)
#undef PF_RECURRENT

#define PF_HOW                                                                         \
  "Tensor[] params, bool has_biases, int num_layers, float dropout, bool train, bool " \
  "bidirectional"
#define PF_CELL_WEIGHTS "Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None"
#define PF_RECURRENT_ROWS(NAME, WHAT)                                                            \
  f.op(&NAME, {#NAME "(Tensor input, Tensor hx, " PF_HOW                                         \
                     ", bool batch_first) -> (Tensor output, Tensor hidden)",                    \
               "Layers of " WHAT " over input [steps, batch, features] from the state hx "       \
               "[layers * directions, batch, hidden]; params has weight_ih, weight_hh and "      \
               "(has_biases) bias_ih, bias_hh of each.",                                         \
               ops::kFunction});                                                                 \
  f.op(&NAME##_packed,                                                                           \
       {#NAME "(Tensor data, Tensor batch_sizes, Tensor hx, " PF_HOW                             \
              ") -> (Tensor output, Tensor hidden)",                                             \
        "The same over packed sequences: data [rows, features], batch_sizes rows of each step.", \
        ops::kFunction});                                                                        \
  f.op(&NAME##_cell,                                                                             \
       {#NAME "_cell(Tensor input, Tensor hx, " PF_CELL_WEIGHTS ") -> Tensor",                   \
        "One step of " WHAT ": the next state of [batch, hidden].", ops::kFunction});

const ops::Family kRecurrent("recurrent", [](ops::Family& f) {
  f.op(&lstm, {"lstm(Tensor input, Tensor[] hx, " PF_HOW ", bool batch_first) -> Tensor[]",
               "Layers of an LSTM over input [steps, batch, features] from the state hx = (h, c), "
               "each [layers * directions, batch, ...]: (output, h, c). params has weight_ih, "
               "weight_hh, (has_biases) bias_ih, bias_hh and, where h is narrower than c, "
               "weight_hr of each.",
               ops::kFunction});
  f.op(&lstm_packed,
       {"lstm(Tensor data, Tensor batch_sizes, Tensor[] hx, " PF_HOW ") -> Tensor[]",
        "The same over packed sequences: data [rows, features], batch_sizes rows of each step.",
        ops::kFunction});
  f.op(&lstm_cell,
       {"lstm_cell(Tensor input, Tensor[] hx, " PF_CELL_WEIGHTS ") -> (Tensor hidden, Tensor cell)",
        "One step of an LSTM from the state hx = (h, c).", ops::kFunction});
  PF_RECURRENT_ROWS(gru, "a GRU")
  PF_RECURRENT_ROWS(rnn_tanh, "an RNN with tanh")
  PF_RECURRENT_ROWS(rnn_relu, "an RNN with relu")
});
#undef PF_RECURRENT_ROWS
#undef PF_CELL_WEIGHTS
#undef PF_HOW

}  // namespace
}  // namespace pyflame
