#include "common/files/safetensors_writer.h"

#include <simdjson.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/files/durable_file.h"
#include "common/files/safetensors.h"
#include "common/files/safetensors_header.h"
#include "common/hash.h"
#include "common/status_macros.h"

namespace coxswain {
namespace {

// dtype descending, then name ascending. Source: safetensors tensor.rs, prepare.
std::vector<const TensorSource*> FileOrder(const std::vector<TensorSource>& tensors) {
  std::vector<const TensorSource*> order;
  order.reserve(tensors.size());
  for (const TensorSource& tensor : tensors) order.push_back(&tensor);
  std::sort(order.begin(), order.end(), [](const TensorSource* a, const TensorSource* b) {
    if (a->dtype != b->dtype) return a->dtype > b->dtype;
    return a->name < b->name;
  });
  return order;
}

absl::Status CheckText(const std::string& text) {
  if (simdjson::validate_utf8(text.data(), text.size())) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("name or metadata \"", text, "\" is not valid UTF-8"));
}

absl::StatusOr<std::vector<SafetensorsEntry>> LayOut(
    const std::vector<const TensorSource*>& order) {
  std::vector<SafetensorsEntry> entries;
  int64_t position = 0;
  for (const TensorSource* tensor : order) {
    RETURN_IF_ERROR(CheckText(tensor->name));
    if (tensor->name == "__metadata__") {
      return absl::InvalidArgumentError("tensor name \"__metadata__\" is reserved");
    }
    ASSIGN_OR_RETURN(const int64_t bytes,
                     SafetensorsTensorBytes(tensor->name, tensor->dtype, tensor->shape));
    int64_t end = 0;
    if (__builtin_add_overflow(position, bytes, &end)) {
      return absl::InvalidArgumentError("the tensors together overflow a file size");
    }
    entries.push_back({.name = tensor->name,
                       .dtype = tensor->dtype,
                       .shape = tensor->shape,
                       .begin = position,
                       .end = end});
    position = end;
  }
  return entries;
}

// A durable file that hashes what it is given.
class HashedFile {
 public:
  explicit HashedFile(std::unique_ptr<DurableFile> file) : file_(std::move(file)) {}

  absl::Status Append(std::string_view bytes) {
    hash_.Update(bytes);
    written_.bytes += static_cast<int64_t>(bytes.size());
    return file_->Append(bytes);
  }

  absl::StatusOr<WrittenFile> Commit() {
    RETURN_IF_ERROR(file_->Commit());
    written_.sha256 = ToHex(hash_.Finish());
    return written_;
  }

 private:
  std::unique_ptr<DurableFile> file_;
  Sha256Stream hash_;
  WrittenFile written_;
};

absl::Status CheckDuplicates(const std::vector<TensorSource>& tensors) {
  std::vector<std::string_view> names;
  names.reserve(tensors.size());
  for (const TensorSource& tensor : tensors) names.push_back(tensor.name);
  std::sort(names.begin(), names.end());
  const auto repeated = std::adjacent_find(names.begin(), names.end());
  if (repeated == names.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("tensor name \"", std::string(*repeated), "\" is repeated"));
}

}  // namespace

absl::StatusOr<WrittenFile> WriteSafetensors(const std::string& path,
                                             const std::vector<TensorSource>& tensors,
                                             const std::map<std::string, std::string>& metadata) {
  for (const auto& [key, value] : metadata) {
    RETURN_IF_ERROR(CheckText(key));
    RETURN_IF_ERROR(CheckText(value));
  }
  RETURN_IF_ERROR(CheckDuplicates(tensors));
  const std::vector<const TensorSource*> order = FileOrder(tensors);
  ASSIGN_OR_RETURN(const std::vector<SafetensorsEntry> entries, LayOut(order));
  const std::string header = FormatSafetensorsHeader(entries, metadata);
  if (header.size() > kMaxSafetensorsHeaderBytes) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": the header needs ", header.size(),
                                                   " bytes, the format allows ",
                                                   kMaxSafetensorsHeaderBytes));
  }

  ASSIGN_OR_RETURN(std::unique_ptr<DurableFile> durable, DurableFile::Create(path));
  HashedFile file(std::move(durable));
  const uint64_t header_bytes = header.size();
  char length[sizeof(header_bytes)];
  std::memcpy(length, &header_bytes, sizeof(length));
  RETURN_IF_ERROR(file.Append({length, sizeof(length)}));
  RETURN_IF_ERROR(file.Append(header));
  std::vector<uint8_t> buffer;
  for (size_t i = 0; i < order.size(); ++i) {
    buffer.resize(static_cast<size_t>(entries[i].end - entries[i].begin));
    RETURN_IF_ERROR(order[i]->fill(buffer.data()));
    RETURN_IF_ERROR(file.Append({reinterpret_cast<const char*>(buffer.data()), buffer.size()}));
  }
  return file.Commit();
}

}  // namespace coxswain
