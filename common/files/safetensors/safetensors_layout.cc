#include "common/files/safetensors/safetensors_layout.h"

#include <simdjson.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace coxswain {
namespace {

// dtype descending, then name ascending. Source: safetensors tensor.rs, prepare.
std::vector<size_t> FileOrder(const std::vector<TensorForm>& tensors) {
  std::vector<size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    if (tensors[a].dtype != tensors[b].dtype) return tensors[a].dtype > tensors[b].dtype;
    return tensors[a].name < tensors[b].name;
  });
  return order;
}

absl::Status CheckText(const std::string& text) {
  if (simdjson::validate_utf8(text.data(), text.size())) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("name or metadata \"", text, "\" is not valid UTF-8"));
}

absl::Status CheckDuplicates(const std::vector<TensorForm>& tensors) {
  std::vector<std::string_view> names;
  names.reserve(tensors.size());
  for (const TensorForm& tensor : tensors) names.push_back(tensor.name);
  std::sort(names.begin(), names.end());
  const auto repeated = std::adjacent_find(names.begin(), names.end());
  if (repeated == names.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("tensor name \"", std::string(*repeated), "\" is repeated"));
}

absl::StatusOr<std::vector<SafetensorsEntry>> PlaceTensors(const std::vector<TensorForm>& tensors,
                                                           const std::vector<size_t>& order) {
  std::vector<SafetensorsEntry> entries;
  int64_t position = 0;
  for (const size_t i : order) {
    const TensorForm& tensor = tensors[i];
    RETURN_IF_ERROR(CheckText(tensor.name));
    if (tensor.name == "__metadata__") {
      return absl::InvalidArgumentError("tensor name \"__metadata__\" is reserved");
    }
    ASSIGN_OR_RETURN(const int64_t bytes,
                     SafetensorsTensorBytes(tensor.name, tensor.dtype, tensor.shape));
    int64_t end = 0;
    if (__builtin_add_overflow(position, bytes, &end)) {
      return absl::InvalidArgumentError("the tensors together overflow a file size");
    }
    entries.push_back({.name = tensor.name,
                       .dtype = tensor.dtype,
                       .shape = tensor.shape,
                       .begin = position,
                       .end = end});
    position = end;
  }
  return entries;
}

}  // namespace

int64_t SafetensorsLayout::bytes() const {
  return static_cast<int64_t>(head.size()) + (entries.empty() ? 0 : entries.back().end);
}

absl::StatusOr<SafetensorsLayout> LayOutSafetensors(
    const std::string& path, const std::vector<TensorForm>& tensors,
    const std::map<std::string, std::string>& metadata) {
  for (const auto& [key, value] : metadata) {
    RETURN_IF_ERROR(CheckText(key));
    RETURN_IF_ERROR(CheckText(value));
  }
  RETURN_IF_ERROR(CheckDuplicates(tensors));
  SafetensorsLayout layout;
  layout.order = FileOrder(tensors);
  ASSIGN_OR_RETURN(layout.entries, PlaceTensors(tensors, layout.order));
  const std::string header = FormatSafetensorsHeader(layout.entries, metadata);
  if (header.size() > kMaxSafetensorsHeaderBytes) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": the header needs ", header.size(),
                                                   " bytes, the format allows ",
                                                   kMaxSafetensorsHeaderBytes));
  }
  const uint64_t header_bytes = header.size();
  layout.head.resize(sizeof(header_bytes));
  std::memcpy(layout.head.data(), &header_bytes, sizeof(header_bytes));
  layout.head += header;
  return layout;
}

}  // namespace coxswain
