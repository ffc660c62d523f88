#include "tests/support/gguf_file.h"

#include <cstring>
#include <stdexcept>
#include <utility>

#include "common/files/hash.h"
#include "common/files/read_file.h"

namespace coxswain::support {
namespace {

using Json = nlohmann::json;

constexpr size_t kAlignment = 32;

class Reader {
 public:
  explicit Reader(std::string bytes) : bytes_(std::move(bytes)) {}

  template <typename T>
  T Take() {
    T value;
    std::memcpy(&value, Bytes(sizeof(T)).data(), sizeof(T));
    return value;
  }
  std::string Text() { return Bytes(Take<uint64_t>()); }
  std::string Bytes(size_t count) {
    if (at_ + count > bytes_.size()) throw std::runtime_error("the file is cut short");
    at_ += count;
    return bytes_.substr(at_ - count, count);
  }
  Json Scalar(uint32_t type) {
    switch (type) {
      case 4:
        return Take<uint32_t>();
      case 5:
        return Take<int32_t>();
      case 6:
        return static_cast<double>(Take<float>());
      case 7:
        return Take<uint8_t>() != 0;
      case 8:
        return Text();
      default:
        throw std::runtime_error("type " + std::to_string(type) + " of a value");
    }
  }
  void Align() { at_ = (at_ + kAlignment - 1) / kAlignment * kAlignment; }
  size_t at() const { return at_; }
  void Seek(size_t at) { at_ = at; }

 private:
  const std::string bytes_;
  size_t at_ = 0;
};

std::string NameOf(uint32_t type) {
  const std::map<uint32_t, std::string> names = {{4, "UINT32"}, {5, "INT32"},  {6, "FLOAT32"},
                                                 {7, "BOOL"},   {8, "STRING"}, {9, "ARRAY"}};
  return names.at(type);
}

std::string PythonText(const Json& values) {
  std::string text = "[";
  for (const Json& value : values) text += (text.size() > 1 ? ", " : "") + value.dump();
  return text + "]";
}

void ReadField(Reader* in, GgufFacts* facts) {
  const std::string key = in->Text();
  const auto type = in->Take<uint32_t>();
  if (type != 9) {
    facts->fields[key] = {{"type", NameOf(type)}, {"value", in->Scalar(type)}};
    return;
  }
  const auto of = in->Take<uint32_t>();
  const auto count = in->Take<uint64_t>();
  Json values = Json::array();
  for (uint64_t i = 0; i < count; ++i) values.push_back(in->Scalar(of));
  facts->fields[key] = {
      {"type", "ARRAY"},
      {"value",
       {{"of", NameOf(of)}, {"count", count}, {"sha256", ToHex(Sha256(PythonText(values)))}}}};
  facts->arrays[key] = std::move(values);
}

struct Place {
  std::string name;
  uint64_t offset = 0;
};

Place ReadTensorInfo(Reader* in, GgufFacts* facts) {
  Place place{.name = in->Text()};
  Json shape = Json::array();
  uint64_t elements = 1;
  const auto dimensions = in->Take<uint32_t>();
  for (uint32_t i = 0; i < dimensions; ++i) {
    shape.push_back(in->Take<uint64_t>());
    elements *= shape.back().get<uint64_t>();
  }
  const auto type = in->Take<uint32_t>();
  place.offset = in->Take<uint64_t>();
  const std::map<uint32_t, std::pair<std::string, uint64_t>> types = {
      {0, {"F32", elements * 4}},           {1, {"F16", elements * 2}},
      {6, {"Q5_0", elements / 32 * 22}},    {7, {"Q5_1", elements / 32 * 24}},
      {8, {"Q8_0", elements / 32 * 34}},    {12, {"Q4_K", elements / 256 * 144}},
      {13, {"Q5_K", elements / 256 * 176}}, {14, {"Q6_K", elements / 256 * 210}},
      {30, {"BF16", elements * 2}}};
  const auto& [name, bytes] = types.at(type);
  facts->tensors[place.name] = {{"type", name}, {"shape", shape}, {"bytes", bytes}};
  return place;
}

}  // namespace

GgufFacts ReadGguf(const std::string& path) {
  const auto bytes = ReadFile(path);
  if (!bytes.ok()) throw std::runtime_error(std::string(bytes.status().message()));
  Reader in(*bytes);
  if (in.Bytes(4) != "GGUF" || in.Take<uint32_t>() != 3) {
    throw std::runtime_error(path + " is no GGUF of version 3");
  }
  const auto tensors = in.Take<uint64_t>(), fields = in.Take<uint64_t>();
  GgufFacts facts{.file_bytes = static_cast<int64_t>(bytes->size())};
  for (uint64_t i = 0; i < fields; ++i) ReadField(&in, &facts);
  std::vector<Place> places;
  for (uint64_t i = 0; i < tensors; ++i) places.push_back(ReadTensorInfo(&in, &facts));
  in.Align();
  const size_t begin = in.at();
  for (const Place& place : places) {
    if (place.offset % kAlignment != 0) throw std::runtime_error(place.name + " is not aligned");
    in.Seek(begin + place.offset);
    Json& tensor = facts.tensors[place.name];
    facts.data[place.name] = in.Bytes(tensor["bytes"]);
    tensor["sha256"] = ToHex(Sha256(facts.data[place.name]));
  }
  return facts;
}

}  // namespace coxswain::support
