#include "common/files/safetensors/safetensors.h"

#include <bit>
#include <cstring>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/files/mapped_file.h"
#include "common/files/read_file.h"
#include "common/files/safetensors/safetensors_header.h"
#include "common/status_macros.h"

namespace coxswain {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

absl::Status Refuse(const std::string& path, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(path, " is not a valid safetensors file: ", what));
}

}  // namespace

struct SafetensorsFile::Impl {
  std::string path;
  std::unique_ptr<MappedFile> mapping;
  std::vector<TensorInfo> tensors;
  std::unordered_map<std::string, size_t> by_name;
  std::map<std::string, std::string> metadata;

  absl::Status ReadHeader();
};

absl::Status SafetensorsFile::Impl::ReadHeader() {
  const auto* bytes = reinterpret_cast<const uint8_t*>(mapping->bytes().data());
  const size_t mapped_bytes = mapping->bytes().size();
  if (mapped_bytes < 8) {
    return Refuse(path, absl::StrCat("it has ", mapped_bytes, " bytes, at least 8 are needed"));
  }
  if (const std::string pointer = LfsPointerText(mapping->bytes().substr(0, 1024));
      !pointer.empty()) {
    return Refuse(path, pointer);
  }
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, bytes, 8);
  if (header_bytes > kMaxSafetensorsHeaderBytes) {
    return Refuse(path, absl::StrCat("its header claims ", header_bytes, " bytes, the limit is ",
                                     kMaxSafetensorsHeaderBytes));
  }
  if (header_bytes > mapped_bytes - 8) {
    return Refuse(path, absl::StrCat("its header claims ", header_bytes, " bytes, the file has ",
                                     mapped_bytes, " (truncated?)"));
  }
  const uint8_t* data = bytes + 8 + header_bytes;
  absl::StatusOr<SafetensorsHeader> header = ParseSafetensorsHeader(
      std::string_view(reinterpret_cast<const char*>(bytes) + 8, header_bytes),
      static_cast<int64_t>(mapped_bytes - 8 - header_bytes));
  RETURN_IF_ERROR(mapping->Intact());
  if (!header.ok()) return Refuse(path, std::string(header.status().message()));
  metadata = std::move(header->metadata);
  for (SafetensorsEntry& entry : header->entries) {
    by_name.emplace(entry.name, tensors.size());
    tensors.push_back(TensorInfo{.name = std::move(entry.name),
                                 .dtype = entry.dtype,
                                 .shape = std::move(entry.shape),
                                 .bytes = entry.end - entry.begin,
                                 .data = data + entry.begin});
  }
  return absl::OkStatus();
}

SafetensorsFile::SafetensorsFile() : impl_(std::make_unique<Impl>()) {}
SafetensorsFile::~SafetensorsFile() = default;

absl::StatusOr<std::unique_ptr<SafetensorsFile>> SafetensorsFile::Open(const std::string& path) {
  std::unique_ptr<SafetensorsFile> file(new SafetensorsFile());
  file->impl_->path = path;
  ASSIGN_OR_RETURN(file->impl_->mapping, MappedFile::Open(path));
  RETURN_IF_ERROR(file->impl_->ReadHeader());
  return file;
}

const std::vector<TensorInfo>& SafetensorsFile::tensors() const { return impl_->tensors; }

const TensorInfo* SafetensorsFile::Find(const std::string& name) const {
  const auto it = impl_->by_name.find(name);
  return it == impl_->by_name.end() ? nullptr : &impl_->tensors[it->second];
}

const std::map<std::string, std::string>& SafetensorsFile::metadata() const {
  return impl_->metadata;
}

const std::string& SafetensorsFile::path() const { return impl_->path; }

std::string_view SafetensorsFile::content() const { return impl_->mapping->bytes(); }

absl::Status SafetensorsFile::Intact() const { return impl_->mapping->Intact(); }

}  // namespace coxswain
