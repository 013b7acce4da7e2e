// Files: safetensors and trees, what they refuse, and what a failed write leaves behind.
#include "io/safetensors.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "core/tensor_impl.h"
#include "engine/engine.h"
#include "pyflame/io.h"

namespace pyflame {
namespace {

namespace fs = std::filesystem;
using io::Tree;

struct Files : testing::Test {
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "pyflame_io_XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    dir = pattern;
  }
  void TearDown() override { fs::remove_all(dir); }
  std::string at(const char* name) const { return (dir / name).string(); }
  size_t count() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(dir), {}));
  }
  fs::path dir;
};

std::string slurp(const std::string& path) {
  std::ifstream f(path, std::ios::binary);
  std::stringstream s;
  s << f.rdbuf();
  return s.str();
}
void spit(const std::string& path, const std::string& data) {
  std::ofstream(path, std::ios::binary) << data;
}

Tensor filled(const Dims& shape, DType dtype, unsigned char step = 1) {
  Tensor t = make_tensor(shape, dtype, Device{});
  std::string bytes(nbytes(dtype, t->numel), '\0');
  for (size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<char>(dtype == DType::Bool ? i % 2 : i * step + 1);
  if (t->numel) engine::copy_from_host(t, bytes.data());
  return t;
}
std::string bytes_of(const Tensor& t) {
  std::string bytes(nbytes(t->dtype, t->numel), '\0');
  if (t->numel) std::memcpy(bytes.data(), engine::host_data(t, "test"), bytes.size());
  return bytes;
}

// A file from header text and data, with a right length field.
std::string file_of(const std::string& header, const std::string& data) {
  uint64_t n = header.size();
  std::string s(reinterpret_cast<char*>(&n), 8);
  return s + header + data;
}

TEST_F(Files, EveryDtypeComesBackBitForBit) {
  std::vector<io::NamedTensor> all;
  for (const DTypeInfo& d : kDTypes) {
    all.push_back({"x." + std::string(d.name), filled(Dims{3, 4}, d.id, 7)});
    all.push_back({"empty." + std::string(d.name), filled(Dims{2, 0, 3}, d.id)});
    if (d.bits >= 8) all.push_back({"scalar." + std::string(d.name), filled(Dims{}, d.id, 3)});
  }
  io::save_safetensors(at("all"), all, {{"who", "me"}, {"quote", "a\"\\\n\x01\xc3\xa9"}});
  for (io::Load how : {io::Load::Copy, io::Load::Map}) {
    io::Metadata metadata;
    auto back = io::load_safetensors(at("all"), {}, how, &metadata);
    EXPECT_EQ(metadata.at("quote"), "a\"\\\n\x01\xc3\xa9");
    ASSERT_EQ(back.size(), all.size());
    for (const auto& saved : all) {
      auto it = std::find_if(back.begin(), back.end(),
                             [&](const auto& t) { return t.name == saved.name; });
      ASSERT_NE(it, back.end()) << saved.name;
      EXPECT_EQ(it->tensor->shape, saved.tensor->shape) << saved.name;
      EXPECT_EQ(it->tensor->dtype, saved.tensor->dtype) << saved.name;
      EXPECT_EQ(bytes_of(it->tensor), bytes_of(saved.tensor)) << saved.name;
    }
  }
}

TEST_F(Files, IsDeterministicAndAligned) {
  Tensor a = filled(Dims{5}, DType::UInt8), b = filled(Dims{2, 2}, DType::Float64);
  io::save_safetensors(at("1"), {{"a", a}, {"b", b}});
  io::save_safetensors(at("2"), {{"b", b}, {"a", a}});
  std::string one = slurp(at("1"));
  EXPECT_EQ(one, slurp(at("2")));
  uint64_t n;
  std::memcpy(&n, one.data(), 8);
  EXPECT_EQ((8 + n) % io::kDataAlignment, 0u);
  io::SafetensorsFile file(at("1"));
  for (const auto& e : file.entries()) EXPECT_EQ(e.begin % itemsize(e.dtype), 0u);
  EXPECT_EQ(count(), 2u);  // no temporary is left
}

TEST_F(Files, NonContiguousViewsAreWrittenInOrder) {
  Tensor a = filled(Dims{2, 3}, DType::Int32);
  Tensor t = make_view(a, Dims{3, 2}, Dims{1, 3}, 0);
  io::save_safetensors(at("t"), {{"t", t}});
  Tensor back = io::load_safetensors(at("t"))[0].tensor;
  EXPECT_EQ(back->shape, (Dims{3, 2}));
  auto v = [](const Tensor& x) {
    return static_cast<const int32_t*>(engine::host_data(x, "test"));
  };
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < 2; ++j) EXPECT_EQ(v(back)[i * 2 + j], v(a)[j * 3 + i]);
}

TEST_F(Files, WritingToAMappedTensorLeavesTheFile) {
  io::save_safetensors(at("m"), {{"a", filled(Dims{4}, DType::Int32)}});
  std::string before = slurp(at("m"));
  {
    Tensor a = io::load_safetensors(at("m"), {}, io::Load::Map)[0].tensor;
    fs::remove(at("m"));  // the mapping keeps the old file alive
    static_cast<int32_t*>(engine::host_data(a, "test", true))[0] = 99;
    spit(at("m"), before);
  }
  EXPECT_EQ(slurp(at("m")), before);
}

TEST_F(Files, BoolsOfAForeignFileBecomeZeroOrOne) {
  std::string data("\0\1\2\xff", 4);
  spit(at("b"), file_of(R"({"m":{"dtype":"BOOL","shape":[4],"data_offsets":[0,4]}})", data));
  for (io::Load how : {io::Load::Copy, io::Load::Map})
    EXPECT_EQ(bytes_of(io::load_safetensors(at("b"), {}, how)[0].tensor),
              std::string("\0\1\1\1", 4));
}

struct Bad {
  const char* why;
  std::string header;
  size_t data;
};

TEST_F(Files, MalformedHeadersAreRefused) {
  auto entry = [](const char* dtype, const char* shape, const char* offsets) {
    return std::string(R"("a":{"dtype":")") + dtype + R"(","shape":)" + shape +
           R"(,"data_offsets":)" + offsets + "}";
  };
  std::string good = "{" + entry("F32", "[2]", "[0,8]") + "}";
  const Bad cases[] = {
      {"not an object", "[]", 0},
      {"empty", "", 0},
      {"space first", " " + good, 8},
      {"cut", good.substr(0, good.size() - 2), 8},
      {"behind the end", good + "x", 8},
      {"two objects", good + "{}", 8},
      {"negative size", "{" + entry("F32", "[-2]", "[0,8]") + "}", 8},
      {"fraction", "{" + entry("F32", "[2.0]", "[0,8]") + "}", 8},
      {"leading zero", "{" + entry("F32", "[02]", "[0,8]") + "}", 8},
      {"exponent", "{" + entry("F32", "[2e0]", "[0,8]") + "}", 8},
      {"wrong size", "{" + entry("F32", "[3]", "[0,8]") + "}", 8},
      {"file too short", good, 7},
      {"file too long", good, 9},
      {"hole at the start", "{" + entry("F32", "[2]", "[4,12]") + "}", 12},
      {"reversed", "{" + entry("F32", "[0]", "[8,0]") + "}", 8},
      {"overflow", "{" + entry("F32", "[4294967296,4294967296]", "[0,0]") + "}", 0},
      {"overflow beside 0", "{" + entry("F32", "[0,4611686018427387904,8]", "[0,0]") + "}", 0},
      {"past 64 bits", "{" + entry("F32", "[99999999999999999999]", "[0,8]") + "}", 8},
      {"thirteen dimensions", "{" + entry("F32", "[1,1,1,1,1,1,1,1,1,1,1,1,1]", "[0,4]") + "}", 4},
      {"half a byte", "{" + entry("I4", "[3]", "[0,2]") + "}", 2},
      {"three offsets", "{" + entry("F32", "[2]", "[0,8,8]") + "}", 8},
      {"name twice", "{" + entry("F32", "[1]", "[0,4]") + "," + entry("F32", "[1]", "[4,8]") + "}",
       8},
      {"key twice", R"({"a":{"dtype":"F32","dtype":"F32","shape":[],"data_offsets":[0,4]}})", 4},
      {"key missing", R"({"a":{"dtype":"F32","data_offsets":[0,4]}})", 4},
      {"key unknown", R"({"a":{"dtype":"F32","shape":[],"data_offsets":[0,4],"x":1}})", 4},
      {"overlap",
       R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
       R"("b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})",
       6},
      {"hole",
       R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
       R"("b":{"dtype":"U8","shape":[2],"data_offsets":[4,6]}})",
       6},
      {"metadata not text", R"({"__metadata__":{"a":1}})", 0},
      {"metadata key twice", R"({"__metadata__":{"a":"1","a":"2"}})", 0},
      {"metadata twice", R"({"__metadata__":{},"__metadata__":{}})", 0},
      {"metadata nested", R"({"__metadata__":{"a":{"b":"c"}}})", 0},
      {"bad escape", R"({"__metadata__":{"a":"\x"}})", 0},
      {"half surrogate", R"({"__metadata__":{"a":"\ud800"}})", 0},
      {"bad utf-8", "{\"__metadata__\":{\"a\":\"\xff\"}}", 0},
      {"overlong utf-8", "{\"__metadata__\":{\"a\":\"\xc0\xaf\"}}", 0},
      {"control character", "{\"__metadata__\":{\"a\":\"\n\"}}", 0},
      {"deep", std::string(100000, '['), 0},
      {"deep objects", "{\"a\":" + std::string(100000, '{'), 0},
  };
  for (const Bad& c : cases) {
    spit(at("bad"), file_of(c.header, std::string(c.data, '\1')));
    EXPECT_THROW(io::SafetensorsFile{at("bad")}, FileError) << c.why;
    EXPECT_THROW(io::load_tree(at("bad")), FileError) << c.why;
  }
  spit(at("good"), file_of(good + "   \n", std::string(8, '\1')));
  EXPECT_EQ(io::SafetensorsFile(at("good")).entries().size(), 1u);
  spit(at("none"), file_of("{}", ""));
  EXPECT_EQ(io::SafetensorsFile(at("none")).entries().size(), 0u);
}

TEST_F(Files, OnlyTensorsOfAnUnknownDtypeCannotBeRead) {
  spit(at("some"), file_of(R"({"a":{"dtype":"F33","shape":[2],"data_offsets":[0,9]},)"
                           R"("b":{"dtype":"U8","shape":[2],"data_offsets":[9,11]}})",
                           std::string(11, '\2')));
  const io::SafetensorsFile file(at("some"));
  ASSERT_EQ(file.entries().size(), 2u);
  EXPECT_EQ(file.find("a")->unknown, "F33");
  EXPECT_EQ(bytes_of(file.tensor(*file.find("b"))), "\2\2");
  try {
    file.tensor(*file.find("a"));
    FAIL();
  } catch (const FileError& e) {
    EXPECT_NE(std::string(e.what()).find("'a' has the dtype F33"), std::string::npos) << e.what();
  }
  EXPECT_THROW(io::load_tree(at("some")), FileError);
}

TEST_F(Files, LengthsAreCheckedBeforeMemoryIsTaken) {
  for (uint64_t n : {uint64_t{0}, uint64_t{9}, io::kMaxHeader + 1, ~uint64_t{0}, ~uint64_t{7}}) {
    std::string s(reinterpret_cast<char*>(&n), 8);
    spit(at("n"), s + "{}");
    EXPECT_THROW(io::SafetensorsFile{at("n")}, FileError) << n;
  }
  spit(at("n"), "1234567");
  EXPECT_THROW(io::SafetensorsFile{at("n")}, FileError);
  EXPECT_THROW(io::SafetensorsFile{at("absent")}, FileError);
  EXPECT_THROW(io::SafetensorsFile{dir.string()}, FileError);
  ASSERT_EQ(mkfifo(at("pipe").c_str(), 0600), 0);
  EXPECT_THROW(io::SafetensorsFile{at("pipe")}, FileError);  // and does not wait
}

TEST_F(Files, EveryTruncationIsRefused) {
  io::save_safetensors(at("t"), {{"a", filled(Dims{9}, DType::Float32)}}, {{"k", "v"}});
  std::string whole = slurp(at("t"));
  for (size_t n = 0; n < whole.size(); ++n) {
    spit(at("cut"), whole.substr(0, n));
    EXPECT_THROW(io::load_tree(at("cut")), FileError) << n;
  }
}

TEST_F(Files, BadNamesAreRefused) {
  Tensor a = filled(Dims{2}, DType::Float32);
  EXPECT_THROW(io::save_safetensors(at("x"), {{"a", a}, {"a", a}}), ValueError);
  EXPECT_THROW(io::save_safetensors(at("x"), {{"__metadata__", a}}), ValueError);
  EXPECT_THROW(io::save_safetensors(at("x"), {{"\xff", a}}), ValueError);
  EXPECT_THROW(io::save_safetensors(at("x"), {{"a", Tensor{}}}), ValueError);
  EXPECT_EQ(count(), 0u);
}

Tree text(const char* s) {
  return {std::string(s)};
}

TEST_F(Files, TreesKeepEveryKindOfValue) {
  Tree::Dict d;
  d.items.push_back({text("none"), {}});
  d.items.push_back({text("int"), {int64_t{-9223372036854775807} - 1}});
  d.items.push_back({text("big"), {Tree::BigInt{"-170141183460469231731687303715884105728"}}});
  d.items.push_back({text("pi"), {3.141592653589793}});
  d.items.push_back({text("one"), {1.0}});
  d.items.push_back({text("tiny"), {5e-324}});
  d.items.push_back({text("-0"), {-0.0}});
  d.items.push_back({text("inf"), {-HUGE_VAL}});
  d.items.push_back({text("nan"), {std::nan("")}});
  d.items.push_back({text("bytes"), {Tree::Bytes{std::string("\0\xff", 2)}}});
  d.items.push_back({{int64_t{7}}, {Tree::List{{true}, {false}, text("")}}});
  d.items.push_back({{Tree::Tuple{Tree::List{{int64_t{1}}, text("k")}}}, {Tree::Tuple{}}});
  d.items.push_back({text("$"), {Tree::Dict{}}});
  d.items.push_back({text("x"), {filled(Dims{2, 2}, DType::BFloat16)}});
  io::save_tree(at("t"), {d});
  auto back = std::get<Tree::Dict>(io::load_tree(at("t")).value);
  ASSERT_EQ(back.items.size(), d.items.size());
  for (size_t i = 0; i < d.items.size(); ++i)
    EXPECT_EQ(back.items[i].value.value.index(), d.items[i].value.value.index()) << i;
  EXPECT_EQ(std::get<int64_t>(back.items[1].value.value), INT64_MIN);
  EXPECT_EQ(std::get<Tree::BigInt>(back.items[2].value.value).digits,
            "-170141183460469231731687303715884105728");
  EXPECT_EQ(std::get<double>(back.items[3].value.value), 3.141592653589793);
  EXPECT_EQ(std::get<double>(back.items[5].value.value), 5e-324);
  EXPECT_TRUE(std::signbit(std::get<double>(back.items[6].value.value)));
  EXPECT_EQ(std::get<double>(back.items[7].value.value), -HUGE_VAL);
  EXPECT_TRUE(std::isnan(std::get<double>(back.items[8].value.value)));
  EXPECT_EQ(std::get<Tree::Bytes>(back.items[9].value.value).data, std::string("\0\xff", 2));
  EXPECT_EQ(std::get<int64_t>(back.items[10].key.value), 7);
  EXPECT_EQ(std::get<Tree::Tuple>(back.items[11].key.value).items.size(), 2u);
  EXPECT_EQ(std::get<std::string>(back.items[12].key.value), "$");
  EXPECT_EQ(bytes_of(std::get<Tensor>(back.items[13].value.value)),
            bytes_of(std::get<Tensor>(d.items[13].value.value)));
}

TEST_F(Files, SharedMemoryStaysShared) {
  Tensor w = filled(Dims{3, 4}, DType::Float32);
  Tensor transposed = make_view(w, Dims{4, 3}, Dims{1, 4}, 0);
  Tensor row = make_view(w, Dims{4}, Dims{1}, 4);
  Tensor other = filled(Dims{12}, DType::Float32);
  Tensor high = make_view(other, Dims{4}, Dims{1}, 8), low = make_view(other, Dims{3}, Dims{2}, 1);
  io::save_tree(at("t"), {Tree::List{{transposed}, {w}, {row}, {w}, {high}, {low}}});
  for (io::Load how : {io::Load::Copy, io::Load::Map}) {
    auto l = std::get<Tree::List>(io::load_tree(at("t"), {}, how).value);
    auto t = [&](size_t i) { return std::get<Tensor>(l[i].value); };
    EXPECT_EQ(t(0)->storage.get(), t(1)->storage.get());
    EXPECT_EQ(t(2)->storage.get(), t(1)->storage.get());
    EXPECT_EQ(t(1).impl(), t(3).impl());
    EXPECT_EQ(t(4)->storage.get(), t(5)->storage.get());
    EXPECT_NE(t(4)->storage.get(), t(1)->storage.get());
    EXPECT_EQ(t(0)->strides, (Dims{1, 4}));
    EXPECT_EQ(bytes_of(t(1)), bytes_of(w));
    EXPECT_EQ(bytes_of(t(2)), bytes_of(row));
    EXPECT_EQ(bytes_of(t(4)), bytes_of(high));
    EXPECT_EQ(t(5)->strides, (Dims{2}));
  }
  io::SafetensorsFile file(at("t"));
  EXPECT_EQ(file.entries().size(), 2u);
}

TEST_F(Files, TreesThatLieAreRefused) {
  auto with = [&](const std::string& tree) {
    std::string escaped;
    for (char c : tree) {
      if (c == '"' || c == '\\') escaped += '\\';
      escaped += c;
    }
    spit(at("t"), file_of(R"({"__metadata__":{"pyflame.tree":")" + escaped +
                              R"("},"a":{"dtype":"I32","shape":[4],"data_offsets":[0,16]}})",
                          std::string(16, '\1')));
  };
  with(R"({"$":"tensor","v":"a","shape":[2],"strides":[2],"offset":1})");
  EXPECT_NO_THROW(io::load_tree(at("t")));
  const std::string bad[] = {
      R"({"$":"tensor","v":"b"})",
      R"({"$":"tensor","v":"a","grad":true})",
      R"({"$":"tensor","v":"a","shape":[2],"strides":[2],"offset":2})",
      R"({"$":"tensor","v":"a","shape":[2],"strides":[-2],"offset":1})",
      R"({"$":"tensor","v":"a","shape":[2],"strides":[9223372036854775807],"offset":1})",
      R"({"$":"tensor","v":"a","shape":[4611686018427387904,8],"strides":[0,0],"offset":0})",
      R"({"$":"tensor","v":"a","shape":[2],"strides":[1,1],"offset":0})",
      R"({"$":"tensor","v":"a","shape":[2]})",
      R"({"$":"tensor","v":"a","shape":[0],"strides":[1],"offset":0})",
      R"({"$":"tensor","v":"a","offset":18446744073709551615})",
      R"({"$":"dict","v":[[[],1]]})",
      R"({"$":"dict","v":[[1]]})",
      R"({"$":"float","v":"1"})",
      R"({"$":"int","v":"-"})",
      R"({"$":"int","v":"12x"})",
      R"({"$":"bytes","v":"0"})",
      R"({"$":"bytes","v":"0g"})",
      R"({"$":"code","v":"import os"})",
      R"({"a":1,"a":2})",
      R"([1,])",
      R"(nul)",
      R"(1e999)",
      R"(99999999999999999999)",
      R"(--1)",
      R"(01)",
      std::string(5000, '[') + std::string(5000, ']'),
  };
  for (const std::string& tree : bad) {
    with(tree);
    EXPECT_THROW(io::load_tree(at("t")), FileError) << tree.substr(0, 80);
  }
}

TEST_F(Files, DeepOrStrangeTreesAreNotWritten) {
  Tree deep;
  for (int i = 0; i < 200; ++i) deep = Tree{Tree::List{std::move(deep)}};
  EXPECT_THROW(io::save_tree(at("t"), deep), ValueError);
  Tree::Dict d{{{{filled(Dims{1}, DType::Float32)}, {}}}};
  EXPECT_THROW(io::save_tree(at("t"), {d}), ValueError);
  EXPECT_THROW(io::save_tree(at("t"), {std::string("\xff")}), ValueError);
  EXPECT_EQ(count(), 0u);
}

TEST_F(Files, AFullDiskLeavesTheOldFile) {
  io::save_safetensors(at("t"), {{"a", filled(Dims{4}, DType::Float32)}});
  std::string before = slurp(at("t"));
  // In a child: the limit on file sizes stands for a disk without room.
  pid_t child = fork();
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    rlimit limit{4096, 4096};
    setrlimit(RLIMIT_FSIZE, &limit);
    std::string big(100000, 'x');
    int code = 1;
    try {
      io::write_file_atomically(at("t"), big.data(), big.size());
    } catch (const FileError& e) {
      code = std::string(e.what()).find("pf.save") == 0 ? 0 : 2;
    }
    _exit(code);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(slurp(at("t")), before);
  EXPECT_EQ(count(), 1u);
}

TEST_F(Files, WhereAFileCannotBeWritten) {
  char x = 'x';
  EXPECT_THROW(io::write_file_atomically(at("no/such"), &x, 1), FileError);
  EXPECT_THROW(io::write_file_atomically(dir.string(), &x, 1), FileError);
  EXPECT_THROW(io::write_file_atomically("", &x, 1), FileError);
  EXPECT_THROW(io::write_file_atomically("/dev/full", &x, 1), FileError);
}

TEST_F(Files, ALinkKeepsPointing) {
  spit(at("real"), "old");
  fs::create_symlink(at("real"), at("link"));
  io::write_file_atomically(at("link"), "new", 3);
  EXPECT_TRUE(fs::is_symlink(at("link")));
  EXPECT_EQ(slurp(at("real")), "new");
}

}  // namespace
}  // namespace pyflame
