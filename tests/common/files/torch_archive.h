// Files of torch.save, sound and broken, from their parts.
#ifndef COXSWAIN_TESTS_COMMON_FILES_TORCH_ARCHIVE_H_
#define COXSWAIN_TESTS_COMMON_FILES_TORCH_ARCHIVE_H_

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace coxswain::archive {

template <typename Number>
std::string Bytes(Number number) {
  std::string bytes(sizeof(number), '\0');
  std::memcpy(bytes.data(), &number, sizeof(number));
  return bytes;
}

struct ZipEntry {
  std::string name, data;
  uint16_t method = 0, flags = 0;
  std::optional<std::string> local_name = {};  // before the data; else as in the directory
  std::optional<uint64_t> bytes = {};          // of the directory; else those of `data`
  std::optional<uint64_t> header = {};         // where the directory places it
  bool in_64_bits = false;                     // the directory has sizes and place in the extra
};

struct ZipEnd {
  bool in_64_bits = false;
  std::optional<uint64_t> entries = {}, begin = {};
  std::string comment = {};
};

// A zip of stored entries, whose directory says what the parts say.
inline std::string Zip(const std::vector<ZipEntry>& entries, const ZipEnd& end = {}) {
  std::string file, directory;
  for (const ZipEntry& entry : entries) {
    const uint64_t header = entry.header.value_or(file.size());
    const uint64_t size = entry.bytes.value_or(entry.data.size());
    const std::string& name = entry.local_name.value_or(entry.name);
    const std::string padding = "FB" + Bytes<uint16_t>(2) + "ZZ";
    file += "PK\x03\x04" + std::string(22, '\0') + Bytes<uint16_t>(name.size()) +
            Bytes<uint16_t>(padding.size()) + name + padding + entry.data;
    const auto field = [&](uint64_t value) {
      return Bytes(entry.in_64_bits ? uint32_t{0xffffffff} : static_cast<uint32_t>(value));
    };
    std::string extra = "FB" + Bytes<uint16_t>(1) + "Z";
    if (entry.in_64_bits) {
      extra += Bytes<uint16_t>(1) + Bytes<uint16_t>(24) + Bytes(size) + Bytes(size) + Bytes(header);
    }
    directory += "PK\x01\x02" + std::string(4, '\0') + Bytes(entry.flags) + Bytes(entry.method) +
                 std::string(8, '\0') + field(size) + field(size) +
                 Bytes<uint16_t>(entry.name.size()) + Bytes<uint16_t>(extra.size()) +
                 std::string(10, '\0') + field(header) + entry.name + extra;
  }
  const uint64_t begin = end.begin.value_or(file.size());
  const uint64_t count = end.entries.value_or(entries.size());
  const uint64_t bytes = directory.size();
  file += directory;
  if (end.in_64_bits) {
    const uint64_t at = file.size();
    file += "PK\x06\x06" + Bytes<uint64_t>(44) + std::string(20, '\0') + Bytes(count) +
            Bytes(bytes) + Bytes(begin);
    file += "PK\x06\x07" + Bytes<uint32_t>(0) + Bytes(at) + Bytes<uint32_t>(1);
  }
  file += "PK\x05\x06" + std::string(6, '\0') + Bytes(static_cast<uint16_t>(count)) +
          Bytes(static_cast<uint32_t>(bytes)) + Bytes(static_cast<uint32_t>(begin)) +
          Bytes(static_cast<uint16_t>(end.comment.size())) + end.comment;
  return file;
}

// Opcodes of pickle.
inline std::string Text(std::string_view text) {
  return "X" + Bytes(static_cast<uint32_t>(text.size())) + std::string(text);
}
inline std::string Number(int64_t number) { return "\x8a\x08" + Bytes(number); }
inline std::string Class(std::string_view module, std::string_view name) {
  return "c" + std::string(module) + "\n" + std::string(name) + "\n";
}
inline std::string Numbers(const std::vector<int64_t>& numbers) {
  std::string tuple = "(";
  for (const int64_t number : numbers) tuple += Number(number);
  return tuple + "t";
}

struct View {
  std::string name = "w", key = "0", storage = "FloatStorage";
  int64_t elements = 0;  // of the storage
  int64_t offset = 0;
  std::vector<int64_t> shape = {}, strides = {};
};

inline std::string TensorPickle(const View& view) {
  const std::string id = "(" + Text("storage") + Class("torch", view.storage) + Text(view.key) +
                         Text("cpu") + Number(view.elements) + "tQ";
  const std::string hooks = Class("collections", "OrderedDict") + ")R";
  return Class("torch._utils", "_rebuild_tensor_v2") + "(" + id + Number(view.offset) +
         Numbers(view.shape) + Numbers(view.strides) + "\x89" + hooks + "tR";
}

// A whole pickle of protocol 2.
inline std::string Pickle(const std::string& opcodes) { return "\x80\x02" + opcodes + "."; }

inline std::string StateDict(const std::vector<View>& views) {
  std::string dict = "}(";
  for (const View& view : views) dict += Text(view.name) + TensorPickle(view);
  return Pickle(dict + "u");
}

// A file of tensors whose storage 0 has the bytes `data`.
inline std::string File(const std::vector<View>& views, const std::string& data) {
  return Zip({{"archive/data.pkl", StateDict(views)},
              {"archive/byteorder", "little"},
              {"archive/data/0", data}});
}

}  // namespace coxswain::archive

#endif  // COXSWAIN_TESTS_COMMON_FILES_TORCH_ARCHIVE_H_
