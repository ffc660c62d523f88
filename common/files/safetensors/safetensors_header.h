// The JSON header of a safetensors file: what SafetensorsFile parses and WriteSafetensors emits.
#ifndef COXSWAIN_COMMON_FILES_SAFETENSORS_SAFETENSORS_HEADER_H_
#define COXSWAIN_COMMON_FILES_SAFETENSORS_SAFETENSORS_HEADER_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/element_type.h"

namespace coxswain {

// Source: safetensors tensor.rs, MAX_HEADER_SIZE.
inline constexpr uint64_t kMaxSafetensorsHeaderBytes = 100'000'000;

struct SafetensorsEntry {
  std::string name;
  ElementType dtype{};
  std::vector<int64_t> shape;
  int64_t begin = 0, end = 0;  // bytes from the end of the header
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  // offset order; they tile [0, data_bytes) exactly
  std::map<std::string, std::string> metadata;
};

// Parses and checks everything a header can get wrong for a file with `data_bytes` behind it.
// InvalidArgument without the path; names the tensor.
absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(std::string_view json, int64_t data_bytes);

// Compact JSON, __metadata__ first, padded with spaces to a multiple of 8 bytes. Entries must be in
// file order with valid UTF-8 names.
std::string FormatSafetensorsHeader(const std::vector<SafetensorsEntry>& entries,
                                    const std::map<std::string, std::string>& metadata);

// Bytes of a tensor. InvalidArgument: negative extent, overflow of int64, bits not a multiple of 8.
absl::StatusOr<int64_t> SafetensorsTensorBytes(const std::string& name, ElementType dtype,
                                               const std::vector<int64_t>& shape);

}  // namespace coxswain

#endif  // COXSWAIN_COMMON_FILES_SAFETENSORS_SAFETENSORS_HEADER_H_
