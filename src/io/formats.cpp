#include "io/formats.h"

#include <cctype>

namespace pyflame::io {

namespace {

using namespace std::string_view_literals;

constexpr std::string_view kFromTorch =
    "read it with pyflame.load, which runs none of its code, or `pyflame convert`";
constexpr std::string_view kUnpack = "unpack it first";

struct Magic {
  std::string_view bytes;
  Format format;
};

// Longer ones first where one begins like another.
constexpr Magic kMagic[] = {
    // torch.save before 1.6: a pickle of its magic number comes first.
    {"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19\x2e"sv,
     {"a file of torch.save before PyTorch 1.6 (a pickle)", kFromTorch}},
    {"\x89HDF\r\n\x1a\n"sv,
     {"an HDF5 file (Keras writes them)",
      "read it with h5py and save its arrays with pf.safetensors.save_file"}},
    {"GGUF"sv,
     {"a GGUF file (of llama.cpp)",
      "read it with the gguf package, or get the model as "
      "safetensors"}},
    {"\x93NUMPY"sv, {"an array of NumPy (.npy)", "read it with numpy.load and pf.from_numpy"}},
    {"\x1f\x8b"sv, {"compressed with gzip", kUnpack}},
    {"\x28\xb5\x2f\xfd"sv, {"compressed with zstd", kUnpack}},
    {"\xfd"
     "7zXZ\0"sv,
     {"compressed with xz", kUnpack}},
    {"BZh"sv, {"compressed with bzip2", kUnpack}},
    {"version https://git-lfs"sv,
     {"a pointer of Git LFS, not the file itself", "fetch the file with `git lfs pull`"}},
    {"\x7f"
     "ELF"sv,
     {"a program or library", "check the path"}},
};

bool starts_with_word(std::string_view text, std::string_view word) {
  if (text.size() < word.size()) return false;
  for (size_t i = 0; i < word.size(); ++i)
    if (std::tolower(static_cast<unsigned char>(text[i])) != word[i]) return false;
  return true;
}

Format zip(std::string_view head) {
  constexpr size_t kNameAt = 30;  // of the first entry, behind its fixed header
  std::string_view name;
  if (head.size() > kNameAt) {
    size_t size =
        static_cast<unsigned char>(head[26]) + 256u * static_cast<unsigned char>(head[27]);
    name = head.substr(kNameAt, size);
  }
  if (name.ends_with("/data.pkl") || name.ends_with("/byteorder") || name.ends_with("/version") ||
      name.ends_with("/.format_version"))
    return {"a file of torch.save (a zip archive with a pickle)", kFromTorch};
  if (name.ends_with(".npy"))
    return {"an archive of NumPy arrays (.npz)", "read it with numpy.load and pf.from_numpy"};
  return {"a zip archive (torch.save, NumPy and Keras write such)",
          "read it with what wrote it and save its tensors as safetensors"};
}

// A ModelProto: the first field is the version of the format, then a text or the graph.
bool onnx(std::string_view head) {
  if (head.size() < 4 || head[0] != 0x08 || head[1] < 1 || head[1] > 40) return false;
  return head[2] == 0x12 || head[2] == 0x1a || head[2] == 0x22 || head[2] == 0x3a ||
         head[2] == 0x42;
}

}  // namespace

Format foreign_format(std::string_view head) {
  for (const Magic& magic : kMagic)
    if (head.starts_with(magic.bytes)) return magic.format;
  if (head.starts_with("PK\x03\x04") || head.starts_with("PK\x05\x06")) return zip(head);
  if (head.size() >= 2 && head[0] == '\x80' && head[1] >= 2 && head[1] <= 5)
    return {"a pickle, which may run code when it is read",
            "read it with what wrote it, if you trust it, and save its tensors as safetensors"};
  if (head.size() > 262 && head.substr(257, 5) == "ustar") return {"a tar archive", kUnpack};
  if (onnx(head)) return {"a model in the ONNX format", "read its tensors with the onnx package"};
  size_t text = head.find_first_not_of(" \t\r\n");
  if (text != std::string_view::npos) {
    std::string_view rest = head.substr(text);
    if (starts_with_word(rest, "<!doctype") || starts_with_word(rest, "<html") ||
        starts_with_word(rest, "<?xml"))
      return {"a web page, such as a server sends in place of a file",
              "download the file itself; see what the page says"};
    if (rest[0] == '{' || rest[0] == '[') {
      if (head.find('\0') == std::string_view::npos)
        return {"JSON text (an index or a configuration)", "name the file with the tensors"};
    }
  }
  return {};
}

}  // namespace pyflame::io
