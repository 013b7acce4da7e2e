// Trains a small GPT on the bytes of a file, with PyFlame's public headers only.
//
//   gpt_text FILE [STEPS]     the last tenth of FILE is kept back for the test
#include <pyflame/pyflame.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

namespace pf = pyflame;
namespace nn = pyflame::nn;
using pf::Tensor;

struct Config {
  int64_t layers = 2, width = 128, heads = 4, context = 64;
};

// Attention to what is before each position, then two linear layers; each adds to its input.
class Block : public nn::Module {
 public:
  explicit Block(const Config& c)
      : heads_(c.heads),
        norm1_(add_module("norm1", nn::LayerNorm({c.width}))),
        qkv_(add_module("qkv", nn::Linear(c.width, 3 * c.width))),
        out_(add_module("out", nn::Linear(c.width, c.width))),
        norm2_(add_module("norm2", nn::LayerNorm({c.width}))),
        mlp_(add_module("mlp", nn::Sequential(nn::Linear(c.width, 4 * c.width), nn::GELU("tanh"),
                                              nn::Linear(4 * c.width, c.width)))) {}

  Tensor forward(const Tensor& input) const override {
    const Tensor x = input + attention((*norm1_)(input));
    return x + (*mlp_)((*norm2_)(x));
  }

 private:
  Tensor attention(const Tensor& x) const {
    const int64_t batch = x.size(0), length = x.size(1), width = x.size(2);
    // [batch, length, 3 * width] to three of [batch, heads, length, width / heads]
    const Tensor split = pf::view((*qkv_)(x), {batch, length, 3, heads_, width / heads_});
    const pf::TensorList qkv = pf::unbind(pf::permute(split, {2, 0, 3, 1, 4}));
    const Tensor seen = pf::scaled_dot_product_attention(qkv[0], qkv[1], qkv[2], {}, 0, true);
    return (*out_)(pf::reshape(pf::transpose(seen, 1, 2), {batch, length, width}));
  }

  int64_t heads_;
  std::shared_ptr<nn::LayerNorm> norm1_;
  std::shared_ptr<nn::Linear> qkv_, out_;
  std::shared_ptr<nn::LayerNorm> norm2_;
  std::shared_ptr<nn::Sequential> mlp_;
};

class GPT : public nn::Module {
 public:
  explicit GPT(const Config& c)
      : bytes_(add_module("bytes", nn::Embedding(256, c.width))),
        places_(add_module("places", nn::Embedding(c.context, c.width))),
        norm_(add_module("norm", nn::LayerNorm({c.width}))) {
    for (int64_t i = 0; i < c.layers; ++i)
      blocks_.push_back(add_module("block" + std::to_string(i), Block(c)));
    pf::init::normal_(bytes_->weight, 0, 0.02);
    pf::init::normal_(places_->weight, 0, 0.02);
  }

  // Logits of the byte after each: [batch, length] to [batch, length, 256].
  Tensor forward(const Tensor& input) const override {
    Tensor x = (*bytes_)(input) + (*places_)(pf::arange(input.size(1)));
    for (const auto& block : blocks_) x = (*block)(x);
    return pf::linear((*norm_)(x), bytes_->weight);
  }

 private:
  std::shared_ptr<nn::Embedding> bytes_, places_;
  std::shared_ptr<nn::LayerNorm> norm_;
  std::vector<std::shared_ptr<Block>> blocks_;
};

// Mean cross-entropy, in nats a byte, of windows of `text` that begin at random places.
Tensor loss_of(const GPT& model, const Tensor& text, int64_t batch, int64_t context) {
  const Tensor starts = pf::randint(text.numel() - context, {batch, 1});
  const Tensor window =
      pf::to(pf::index(text, {starts + pf::arange(context + 1)}), pf::DType::Int64);
  const Tensor logits = model(pf::narrow(window, 1, 0, context));
  return pf::cross_entropy(pf::flatten(logits, 0, 1),
                           pf::flatten(pf::narrow(window, 1, 1, context)));
}

std::vector<uint8_t> read_bytes(const std::string& path, const Config& c) {
  std::ifstream file(path, std::ios::binary);
  const auto fail = [&](const std::string& why) {
    throw pf::FileError("gpt_text: '" + path + "' " + why + "; expected a file of at least " +
                        std::to_string(20 * c.context) + " bytes; pass another");
  };
  if (!file) fail("cannot be opened");
  std::vector<uint8_t> bytes{std::istreambuf_iterator<char>(file), {}};
  if (file.bad()) fail("cannot be read");
  if (static_cast<int64_t>(bytes.size()) < 20 * c.context)
    fail("has " + std::to_string(bytes.size()) + " bytes");
  return bytes;
}

int main(int argc, char** argv) try {
  if (argc < 2) {
    std::cerr << "usage: gpt_text FILE [STEPS]\n";
    return 2;
  }
  const Config config;
  const std::vector<uint8_t> bytes = read_bytes(argv[1], config);
  const int64_t steps = argc > 2 ? std::atoi(argv[2]) : 400, batch = 16;
  const auto count = static_cast<int64_t>(bytes.size());
  const Tensor all = pf::from_host(bytes.data(), {count}, pf::DType::UInt8);
  const pf::TensorList text = pf::split(all, {count - count / 10, count / 10});

  pf::manual_seed(1);
  GPT model(config);
  pf::optim::AdamW optimizer(model.parameters(), {.lr = 4e-3, .beta2 = 0.95, .weight_decay = 0.1});
  for (int64_t step = 0; step < steps; ++step) {
    const Tensor loss = loss_of(model, text[0], batch, config.context);
    optimizer.zero_grad();
    loss.backward();
    nn::clip_grad_norm_(model.parameters(), 1);
    optimizer.set_lr(pf::optim::warmup_cosine(step, steps / 20, steps, 4e-3));
    optimizer.step();
    if (step % 50 == 0 || step == steps - 1) {
      std::printf("step %lld: loss %.3f\n", static_cast<long long>(step), loss.item<double>());
      std::fflush(stdout);
    }
  }
  const pf::NoGrad guard;
  model.eval();
  std::printf("held-out loss %.3f\n",
              loss_of(model, text[1], 8 * batch, config.context).item<double>());
  return 0;
} catch (const std::exception& e) {
  std::cerr << "error: " << e.what() << '\n';
  return 1;
}
