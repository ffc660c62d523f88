#include "common/files/gguf_writer.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <set>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "common/files/durable_file.h"
#include "common/parallel_for.h"
#include "common/status_macros.h"

namespace coxswain {
namespace {

constexpr uint32_t kVersion = 3;
constexpr int64_t kAlignment = 32;

// Values of gguf_type in the file. Source: the GGUF specification of ggml,
// gguf_metadata_value_type.
constexpr uint32_t kUint32 = 4, kInt32 = 5, kFloat32 = 6, kBool = 7, kString = 8, kArray = 9;

int64_t Aligned(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// Little-endian, as the processors that this runs on are.
template <typename T>
void Put(T value, std::string* out) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  out->append(bytes, sizeof(T));
}

void PutString(const std::string& text, std::string* out) {
  Put<uint64_t>(text.size(), out);
  out->append(text);
}

template <typename T>
constexpr uint32_t TypeOf() {
  if constexpr (std::is_same_v<T, uint32_t>) return kUint32;
  if constexpr (std::is_same_v<T, int32_t>) return kInt32;
  if constexpr (std::is_same_v<T, float>) return kFloat32;
  if constexpr (std::is_same_v<T, bool>) return kBool;
  return kString;
}

template <typename T>
void PutScalar(const T& value, std::string* out) {
  if constexpr (std::is_same_v<T, std::string>) {
    PutString(value, out);
  } else if constexpr (std::is_same_v<T, bool>) {
    Put<uint8_t>(value ? 1 : 0, out);
  } else {
    Put<T>(value, out);
  }
}

template <typename T>
void PutValue(const T& value, std::string* out) {
  Put<uint32_t>(TypeOf<T>(), out);
  PutScalar(value, out);
}

template <typename T>
void PutValue(const std::vector<T>& values, std::string* out) {
  Put<uint32_t>(kArray, out);
  Put<uint32_t>(TypeOf<T>(), out);
  Put<uint64_t>(values.size(), out);
  for (const T& value : values) PutScalar(value, out);
}

absl::Status CheckTensors(const std::string& path, const std::vector<GgufTensor>& tensors) {
  std::set<std::string> names;
  for (const GgufTensor& tensor : tensors) {
    if (!names.insert(tensor.name).second) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": two tensors have the name ", tensor.name));
    }
    const int64_t block = GgufBlock(tensor.type);
    if (tensor.shape.back() % block == 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": ", tensor.name, " has rows of ", tensor.shape.back(), " elements, ",
                     std::string(GgufTypeName(tensor.type)), " has blocks of ", block));
  }
  return absl::OkStatus();
}

// All that stands before the first tensor.
std::string Head(const std::vector<GgufField>& fields, const std::vector<GgufTensor>& tensors) {
  std::string head = "GGUF";
  Put<uint32_t>(kVersion, &head);
  Put<uint64_t>(tensors.size(), &head);
  Put<uint64_t>(fields.size(), &head);
  for (const GgufField& field : fields) {
    PutString(field.key, &head);
    std::visit([&head](const auto& value) { PutValue(value, &head); }, field.value);
  }
  int64_t offset = 0;
  for (const GgufTensor& tensor : tensors) {
    PutString(tensor.name, &head);
    Put<uint32_t>(static_cast<uint32_t>(tensor.shape.size()), &head);
    for (size_t i = tensor.shape.size(); i-- > 0;) {
      Put<uint64_t>(static_cast<uint64_t>(tensor.shape[i]), &head);
    }
    Put<uint32_t>(static_cast<uint32_t>(tensor.type), &head);
    Put<uint64_t>(static_cast<uint64_t>(offset), &head);
    offset += Aligned(GgufBytes(tensor.type, tensor.elements()));
  }
  head.resize(static_cast<size_t>(Aligned(static_cast<int64_t>(head.size()))));
  return head;
}

// On several threads, since finding the scales of blocks takes longer than writing them.
absl::Status Encode(GgufType type, const std::vector<float>& values, std::string* bytes) {
  constexpr int64_t kPiece = 1 << 16;  // elements, whole blocks of every type
  const auto count = static_cast<int64_t>(values.size());
  return ParallelFor((count + kPiece - 1) / kPiece, FileThreads(), [&](int64_t piece) {
    const int64_t begin = piece * kPiece;
    EncodeGguf(type, values.data() + begin, std::min(kPiece, count - begin),
               bytes->data() + GgufBytes(type, begin));
    return absl::OkStatus();
  });
}

absl::Status AppendTensor(const GgufTensor& tensor, DurableFile* file) {
  std::vector<float> values(static_cast<size_t>(tensor.elements() / tensor.parts));
  std::string bytes(static_cast<size_t>(GgufBytes(tensor.type, tensor.elements() / tensor.parts)),
                    '\0');
  for (int64_t part = 0; part < tensor.parts; ++part) {
    RETURN_IF_ERROR(tensor.fill(part, values.data()));
    RETURN_IF_ERROR(Encode(tensor.type, values, &bytes));
    RETURN_IF_ERROR(file->Append(bytes));
  }
  const int64_t written = GgufBytes(tensor.type, tensor.elements());
  return file->Append(std::string(static_cast<size_t>(Aligned(written) - written), '\0'));
}

}  // namespace

int64_t GgufTensor::elements() const {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

absl::Status WriteGguf(const std::string& path, const std::vector<GgufField>& fields,
                       const std::vector<GgufTensor>& tensors) {
  RETURN_IF_ERROR(CheckTensors(path, tensors));
  ASSIGN_OR_RETURN(std::unique_ptr<DurableFile> file, DurableFile::Create(path));
  RETURN_IF_ERROR(file->Append(Head(fields, tensors)));
  for (const GgufTensor& tensor : tensors) RETURN_IF_ERROR(AppendTensor(tensor, file.get()));
  return file->Commit();
}

}  // namespace coxswain
