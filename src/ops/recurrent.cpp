// Recurrent layers: RNN with tanh or relu, LSTM (with projections) and GRU, of several layers, one
// or both ways, over padded or packed sequences. The products with the input are made for all steps
// at once; a step is the product with the state before it and one pointwise group.
#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/tensor_impl.h"
#include "engine/autograd.h"
#include "ops/autocast.h"
#include "ops/building_blocks.h"
#include "ops/functions.h"
#include "ops/registry.h"

namespace pyflame {
namespace {

using autograd::Context;
using autograd::Grads;
using autograd::Saved;

enum class Mode { Tanh, Relu, Lstm, Gru };

int64_t gates_of(Mode m) {
  return m == Mode::Lstm ? 4 : m == Mode::Gru ? 3 : 1;
}

// What one layer has for one direction; what it has not is undefined.
struct Weights {
  Tensor ih, hh, bias_ih, bias_hh, projection;
};
struct State {
  Tensor h, c;  // c: of an LSTM
};

// ---- one step -----------------------------------------------------------------------------------

// What the gradient of a step reads besides the states: of an LSTM the gates and what they let in,
// of a GRU the gates, the new value and the state's part in it.
using Kept = TensorList;

// `x` is the product with the input, with its bias; for all but a GRU with that of the state, too.
State step(Mode mode, const Tensor& x, const State& s, const Weights& w, Kept* kept = nullptr) {
  if (mode == Mode::Gru) {
    const TensorList a = chunk(x, 3, -1), b = chunk(linear(s.h, w.hh, w.bias_hh), 3, -1);
    const Tensor reset = sigmoid(add(a[0], b[0])), keep = sigmoid(add(a[1], b[1]));
    const Tensor fresh = tanh(add(a[2], mul(reset, b[2])));
    if (kept) *kept = {reset, keep, fresh, b[2]};
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
  if (kept) *kept = {in, forget, fresh, out};
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
  const int64_t hidden = wide->shape.back(), rows = gates_of(mode) * hidden;
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

// One layer in one direction; `last` gets the state behind the last step of each sequence.
Tensor run(Mode mode, const Tensor& input, const State& first, const Weights& w, const Time& time,
           bool backwards, State& last) {
  const Tensor x = products_of_input(mode, input, w);
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

// ---- a layer with one product for its weights' gradient -----------------------------------------

// Autograd alone would make a product of the size of the weights for each step, and add them up.
// Here the steps are one node: its backward goes through time by itself and keeps the gradients of
// what goes into the gates, of which those of the weights are one product. With create_graph the
// steps are made again, so that all that it is written in has a history.

// Of the steps in the order in which they ran: the states before each and behind the last.
struct Steps {
  std::vector<Kept> kept;
  TensorList h, c;
};

Steps make_steps(Mode mode, const Tensor& x, const State& first, const Weights& w, bool backwards) {
  TensorList parts = unbind(x, 0);
  if (backwards) std::reverse(parts.begin(), parts.end());
  Steps r{std::vector<Kept>(parts.size()), {first.h}, {first.c}};
  for (size_t i = 0; i < parts.size(); ++i) {
    const State s = step(mode, parts[i], {r.h[i], r.c[i]}, w, &r.kept[i]);
    r.h.push_back(s.h);
    r.c.push_back(s.c);
  }
  return r;
}
Tensor over_time(TensorList steps, bool backwards) {
  if (backwards) std::reverse(steps.begin(), steps.end());
  return stack(steps, 0);
}

Tensor plus(const Tensor& a, const Tensor& b) {
  return !a.defined() ? b : !b.defined() ? a : add(a, b);
}
// g times the slope of a sigmoid, or a tanh, of value y.
Tensor behind_sigmoid(const Tensor& g, const Tensor& y) {
  return mul(g, mul(y, rsub(y, 1)));
}
Tensor behind_tanh(const Tensor& g, const Tensor& y) {
  return mul(g, rsub(mul(y, y), 1));
}

// One step back: `g` is the gradient of the state behind step i and becomes that of the one before
// it, but for the product. What went into the gates by the input, and by the state, gets dx and dh.
void step_back(Mode mode, const Steps& s, size_t i, State& g, Tensor& dx, Tensor& dh) {
  const Kept& k = s.kept[i];
  switch (mode) {
    case Mode::Tanh:
      dx = dh = behind_tanh(g.h, s.h[i + 1]);
      g.h = {};
      break;
    case Mode::Relu:
      dx = dh = where(le(s.h[i + 1], Scalar(0)), Scalar(0), g.h);
      g.h = {};
      break;
    case Mode::Gru: {
      const Tensor &reset = k[0], &keep = k[1], &fresh = k[2], &of_state = k[3];
      const Tensor d_fresh = behind_tanh(mul(g.h, rsub(keep, 1)), fresh);
      const Tensor d_keep = behind_sigmoid(mul(g.h, sub(s.h[i], fresh)), keep);
      const Tensor d_reset = behind_sigmoid(mul(d_fresh, of_state), reset);
      const Tensor d_state = mul(d_fresh, reset);
      g.h = mul(g.h, keep);
      dx = cat({d_reset, d_keep, d_fresh}, -1);
      dh = cat({d_reset, d_keep, d_state}, -1);
      break;
    }
    case Mode::Lstm: {
      const Tensor &in = k[0], &forget = k[1], &fresh = k[2], &out = k[3];
      const Tensor c = tanh(s.c[i + 1]);
      const Tensor d_out = behind_sigmoid(mul(g.h, c), out);
      const Tensor dc = plus(g.c, behind_tanh(mul(g.h, out), c));
      const Tensor d_in = behind_sigmoid(mul(dc, fresh), in);
      const Tensor d_forget = behind_sigmoid(mul(dc, s.c[i]), forget);
      const Tensor d_fresh = behind_tanh(mul(dc, in), fresh);
      g = {Tensor(), mul(dc, forget)};
      dx = dh = cat({d_in, d_forget, d_fresh, d_out}, -1);
      break;
    }
  }
}

// Gradients of x, the first h and c, the weight and the bias of the state.
Grads steps_back(const Context& c, Mode mode, const Steps& s, const Tensor& hh, bool biased,
                 bool backwards) {
  const size_t steps = s.kept.size();
  TensorList of_out(steps), dx(steps), dh(steps);
  if (c.grad(0).defined()) of_out = unbind(c.grad(0), 0);
  if (backwards) std::reverse(of_out.begin(), of_out.end());
  State g{c.grad(1), mode == Mode::Lstm ? c.grad(2) : Tensor()};
  for (size_t i = steps; i-- > 0;) {
    g.h = plus(g.h, of_out[i]);
    if (!g.h.defined()) g.h = zeros_like(s.h[i + 1]);
    step_back(mode, s, i, g, dx[i], dh[i]);
    if (i > 0 || c.needs(1)) g.h = plus(matmul(dh[i], hh), g.h);
  }
  Grads r(5);
  if (c.needs(0)) r[0] = over_time(dx, backwards);
  if (c.needs(1)) r[1] = g.h;
  if (c.needs(2)) r[2] = g.c;
  if (c.needs(3)) {
    const Tensor all = cat(dh, 0);
    r[3] = matmul(transpose(all, 0, 1), cat(TensorList(s.h.begin(), s.h.end() - 1), 0));
    if (biased && c.needs(4)) r[4] = sum(all, IntList{0});
  } else if (biased && c.needs(4)) {
    r[4] = sum(cat(dh, 0), IntList{0});
  }
  return r;
}

// run() as one node.
Tensor run_as_one(Mode mode, const Tensor& input, const State& first, const Weights& w,
                  bool backwards, State& last, const char* op) {
  const Tensor x = products_of_input(mode, input, w);
  const bool lstm = mode == Mode::Lstm;
  const Tensor bias = mode == Mode::Gru ? w.bias_hh : Tensor();
  const Weights own{{}, w.hh, {}, bias, {}};
  Tensor out;
  std::vector<Saved> saved{Saved(x), Saved(first.h), Saved(w.hh)};
  if (lstm) saved.emplace_back(first.c);
  if (bias.defined()) saved.emplace_back(bias);
  const size_t inputs = saved.size();
  size_t steps, of_each;
  {
    NoGrad off;
    const Steps s = make_steps(mode, x, first, own, backwards);
    out = over_time(TensorList(s.h.begin() + 1, s.h.end()), backwards);
    last = {s.h.back(), s.c.back()};
    steps = s.kept.size();
    of_each = s.kept[0].size();
    // Other handles of the results: what is saved must not own the node.
    for (size_t i = 0; i < steps; ++i) {
      saved.emplace_back(s.h[i + 1].detach());
      if (lstm) saved.emplace_back(s.c[i + 1].detach());
      for (const Tensor& t : s.kept[i]) saved.emplace_back(t);
    }
  }
  const auto backward = [=](const Context& c) -> Grads {
    const Tensor x = c.saved(0), h = c.saved(1), hh = c.saved(2);
    const Tensor cell = lstm ? c.saved(3) : Tensor();
    const bool biased = inputs > (lstm ? 4 : 3);
    if (grad_enabled()) {
      const Weights w{{}, hh, {}, biased ? c.saved(3) : Tensor(), {}};
      return steps_back(c, mode, make_steps(mode, x, {h, cell}, w, backwards), hh, biased,
                        backwards);
    }
    Steps s{std::vector<Kept>(steps), {h}, {cell}};
    size_t at = inputs;
    for (size_t i = 0; i < steps; ++i) {
      s.h.push_back(c.saved(at++));
      s.c.push_back(lstm ? c.saved(at++) : Tensor());
      for (size_t k = 0; k < of_each; ++k) s.kept[i].push_back(c.saved(at++));
    }
    return steps_back(c, mode, s, hh, biased, backwards);
  };
  TensorList results{out, last.h};
  if (lstm) results.push_back(last.c);
  const TensorList from{x, first.h, first.c, w.hh, bias};
  autograd::attach(op, std::span<const Tensor>(results), std::span<const Tensor>(from),
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
      const bool one = !time.packed && !projected && x->numel > 0 &&
                       autograd::wanted({x, w.ih, w.bias_ih, w.bias_hh, w.hh, first.h, first.c});
      outs.push_back(one ? run_as_one(mode, x, first, w, d == 1, last, op)
                         : run(mode, x, first, w, time, d == 1, last));
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
