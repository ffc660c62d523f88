#include "common/files/safetensors.h"

#include <sys/mman.h>
#include <unistd.h>

#include <bit>
#include <cstring>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/files/lfs_pointer.h"
#include "common/files/mapped_file.h"
#include "common/files/safetensors_header.h"
#include "common/status_macros.h"

namespace coxswain {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

absl::Status Refuse(const std::string& path, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(path, " is not a valid safetensors file: ", what));
}

template <typename Bits, typename Convert>
void ConvertAll(const uint8_t* from, int64_t count, float* out, Convert convert) {
  for (int64_t i = 0; i < count; ++i) {
    Bits bits;
    std::memcpy(&bits, from + i * static_cast<int64_t>(sizeof(Bits)), sizeof(Bits));
    out[i] = convert(bits);
  }
}

}  // namespace

int64_t TensorInfo::elements() const {
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  return count;
}

std::string ShapeText(const std::vector<int64_t>& shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

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

void ReleasePages(const TensorInfo& tensor) {
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<uintptr_t>(tensor.data);
  const uintptr_t first = (begin + page - 1) / page * page;
  const uintptr_t last = (begin + static_cast<uintptr_t>(tensor.bytes)) / page * page;
  if (first >= last) return;
  ::madvise(const_cast<uint8_t*>(tensor.data) + (first - begin), last - first, MADV_DONTNEED);
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

absl::Status CopyAsFloat(const TensorInfo& tensor, float* out) {
  return CopyRangeAsFloat(tensor, 0, tensor.elements(), out);
}

absl::Status CopyRangeAsFloat(const TensorInfo& tensor, int64_t begin, int64_t count, float* out) {
  const int64_t elements = tensor.elements();
  if (begin < 0 || count < 0 || begin > elements - count) {
    return absl::InvalidArgumentError(absl::StrCat("tensor \"", tensor.name, "\" has ", elements,
                                                   " elements, asked for [", begin, ", ",
                                                   begin + count, ")"));
  }
  const uint8_t* from = tensor.data + begin * (DTypeBits(tensor.dtype) / 8);
  switch (tensor.dtype) {
    case DType::kF32:
      if (count > 0) std::memcpy(out, from, static_cast<size_t>(count) * sizeof(float));
      return absl::OkStatus();
    case DType::kBF16:
      ConvertAll<uint16_t>(from, count, out, &Bf16ToFloat);
      return absl::OkStatus();
    case DType::kF16:
      ConvertAll<uint16_t>(from, count, out, &HalfToFloat);
      return absl::OkStatus();
    case DType::kF64:
      ConvertAll<double>(from, count, out, [](double value) { return static_cast<float>(value); });
      return absl::OkStatus();
    default:
      return absl::InvalidArgumentError(absl::StrCat("tensor \"", tensor.name, "\" has dtype ",
                                                     std::string(DTypeName(tensor.dtype)),
                                                     ", expected F32, BF16, F16 or F64"));
  }
}

}  // namespace coxswain
