// Trains an MLP on scikit-learn's digits, with PyFlame's public headers only.
//
//   python examples/cpp/export_digits.py digits.bin
//   mlp_digits digits.bin [epochs]
#include <pyflame/pyflame.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

namespace pf = pyflame;
namespace nn = pyflame::nn;

struct Digits {
  pf::Tensor images;  // float32 [count, pixels], 0 to 1
  pf::Tensor labels;  // int64 [count]
  int64_t count, pixels, classes;
};

// Everything in the file is checked before memory is taken for it.
Digits read_digits(const std::string& path) {
  auto fail = [&](const std::string& why) {
    throw pf::FileError("mlp_digits: '" + path + "': " + why +
                        "; expected a file written by export_digits.py; export it again");
  };
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) fail("cannot be opened");
  const int64_t size = file.tellg();
  file.seekg(0);
  char magic[8];
  uint32_t head[4];
  if (size < static_cast<int64_t>(sizeof magic + sizeof head)) fail("is too short");
  file.read(magic, sizeof magic);
  file.read(reinterpret_cast<char*>(head), sizeof head);
  if (std::memcmp(magic, "PFDIGITS", 8) != 0 || head[0] != 1) fail("is of another format");
  Digits d;
  d.count = head[1];
  d.pixels = head[2];
  d.classes = head[3];
  if (d.count == 0 || d.pixels == 0 || d.pixels > 1 << 20 || d.classes == 0 || d.classes > 256)
    fail("has an impossible header");
  const int64_t expected =
      static_cast<int64_t>(sizeof magic + sizeof head) + d.count * d.pixels + d.count;
  if (size != expected)
    fail("has " + std::to_string(size) + " bytes where its header says " +
         std::to_string(expected));
  std::vector<uint8_t> pixels(static_cast<size_t>(d.count * d.pixels));
  std::vector<uint8_t> labels(static_cast<size_t>(d.count));
  file.read(reinterpret_cast<char*>(pixels.data()), static_cast<std::streamsize>(pixels.size()));
  file.read(reinterpret_cast<char*>(labels.data()), static_cast<std::streamsize>(labels.size()));
  if (!file) fail("cannot be read");
  for (uint8_t label : labels)
    if (label >= d.classes) fail("has a label of " + std::to_string(label));
  d.images = pf::to(pf::from_host(pixels.data(), {d.count, d.pixels}, pf::DType::UInt8),
                    pf::DType::Float32) *
             (1.0 / 16);
  d.labels = pf::to(pf::from_host(labels.data(), {d.count}, pf::DType::UInt8), pf::DType::Int64);
  return d;
}

double accuracy(const nn::Sequential& net, const pf::Tensor& x, const pf::Tensor& y) {
  pf::NoGrad guard;
  return pf::mean(pf::to(pf::eq(pf::argmax(net(x), 1), y), pf::DType::Float32)).item<double>();
}

int main(int argc, char** argv) try {
  if (argc < 2) {
    std::cerr << "usage: mlp_digits FILE [EPOCHS]   (FILE from export_digits.py)\n";
    return 2;
  }
  Digits d = read_digits(argv[1]);
  const int epochs = argc > 2 ? std::atoi(argv[2]) : 20;
  pf::manual_seed(0);

  // Every fifth image is for the test.
  std::vector<int64_t> train, test;
  for (int64_t i = 0; i < d.count; ++i) (i % 5 ? train : test).push_back(i);
  auto pick = [&](const pf::Tensor& t, const std::vector<int64_t>& rows) {
    pf::Tensor index =
        pf::from_host(rows.data(), {static_cast<int64_t>(rows.size())}, pf::DType::Int64);
    return pf::index_select(t, 0, index);
  };
  pf::Tensor x = pick(d.images, train), y = pick(d.labels, train);
  pf::Tensor test_x = pick(d.images, test), test_y = pick(d.labels, test);

  nn::Sequential net(nn::Linear(d.pixels, 64), nn::ReLU(), nn::Dropout(0.1),
                     nn::Linear(64, d.classes));
  pf::optim::AdamW optimizer(net.parameters(), {.lr = 3e-3});
  const int64_t count = x.size(0), batch = 64;
  const int64_t steps = epochs * ((count + batch - 1) / batch);
  int64_t step = 0;
  for (int epoch = 0; epoch < epochs; ++epoch) {
    net.train();
    pf::Tensor order = pf::argsort(pf::rand({count}), 0);
    double loss_sum = 0;
    for (int64_t at = 0; at < count; at += batch, ++step) {
      pf::Tensor rows = pf::slice(order, 0, at, std::min(at + batch, count));
      pf::Tensor loss =
          pf::cross_entropy(net(pf::index_select(x, 0, rows)), pf::index_select(y, 0, rows));
      optimizer.zero_grad();
      loss.backward();
      optimizer.set_lr(pf::optim::warmup_cosine(step, 20, steps, 3e-3));
      optimizer.step();
      loss_sum += loss.item<double>() * static_cast<double>(rows.numel());
    }
    net.eval();
    if (epoch % 5 == 4 || epoch == epochs - 1)
      std::printf("epoch %d: loss %.4f, %.1f%% of the test images right\n", epoch + 1,
                  loss_sum / static_cast<double>(count), 100 * accuracy(net, test_x, test_y));
  }
  return accuracy(net, test_x, test_y) > 0.9 ? 0 : 1;
} catch (const std::exception& e) {
  std::cerr << "error: " << e.what() << '\n';
  return 1;
}
