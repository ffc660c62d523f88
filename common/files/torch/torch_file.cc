#include "common/files/torch/torch_file.h"

#include <bit>
#include <unordered_map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/files/mapped_file.h"
#include "common/files/torch/torch_pickle.h"
#include "common/files/torch/torch_zip.h"
#include "common/outside_text.h"
#include "common/status_macros.h"

namespace coxswain {
namespace {

static_assert(std::endian::native == std::endian::little, "storages are little-endian");

template <typename... Parts>
absl::Status BadView(const NamedView& tensor, const Parts&... parts) {
  return absl::InvalidArgumentError(
      absl::StrCat("has the tensor \"", OneLine(tensor.name, kMostNameBytes), "\" ", parts...));
}

// The number of elements, once every one of them lies in the storage.
absl::StatusOr<int64_t> CountElements(const NamedView& tensor) {
  const TorchView& view = tensor.view;
  int64_t elements = 1, last = view.offset;
  bool fits = view.offset >= 0, none = false;
  for (size_t d = 0; d < view.shape.size(); ++d) {
    if (view.shape[d] < 0 || view.strides[d] < 0) {
      return BadView(tensor, "with the negative extent or stride of ", ShapeText(view.shape),
                     " by ", ShapeText(view.strides));
    }
    none = none || view.shape[d] == 0;
  }
  if (none) return 0;
  for (size_t d = 0; d < view.shape.size(); ++d) {
    int64_t step = 0;
    fits = fits && !__builtin_mul_overflow(view.shape[d] - 1, view.strides[d], &step) &&
           !__builtin_add_overflow(last, step, &last) &&
           !__builtin_mul_overflow(elements, view.shape[d], &elements);
  }
  if (!fits || last >= view.storage.elements) {
    return BadView(tensor, "of shape ", ShapeText(view.shape), " by strides ",
                   ShapeText(view.strides), " from element ", view.offset,
                   ", which leaves its storage of ", view.storage.elements, " elements");
  }
  if (elements > view.storage.elements) {
    return BadView(tensor, "of shape ", ShapeText(view.shape), " that repeats the ",
                   view.storage.elements, " elements of its storage; save its contiguous()");
  }
  return elements;
}

// True where the elements lie in the order of the rows without a gap.
bool IsContiguous(const TorchView& view) {
  int64_t expected = 1;
  for (size_t d = view.shape.size(); d-- > 0;) {
    if (view.shape[d] != 1 && view.strides[d] != expected) return false;
    expected *= view.shape[d];
  }
  return true;
}

absl::StatusOr<TensorInfo> PlaceView(const NamedView& tensor, const TorchZip& zip) {
  const TorchView& view = tensor.view;
  const std::string_view bytes = zip.Find(absl::StrCat("data/", std::string(view.storage.key)));
  if (bytes.data() == nullptr) {
    return BadView(tensor, "in the entry data/", OneLine(view.storage.key, kMostNameBytes),
                   ", which it lacks");
  }
  const int64_t element_bytes = ElementBits(view.storage.dtype) / 8;
  int64_t storage_bytes = 0;
  if (__builtin_mul_overflow(view.storage.elements, element_bytes, &storage_bytes) ||
      static_cast<uint64_t>(storage_bytes) > bytes.size()) {
    return BadView(tensor, "in a storage of ", view.storage.elements, " elements of ",
                   std::string(ElementName(view.storage.dtype)), ", of which it holds ",
                   bytes.size(), " bytes (truncated?)");
  }
  ASSIGN_OR_RETURN(const int64_t elements, CountElements(tensor));
  TensorInfo info{.name = tensor.name,
                  .dtype = view.storage.dtype,
                  .shape = view.shape,
                  .bytes = elements * element_bytes,
                  .data = reinterpret_cast<const uint8_t*>(bytes.data())};
  if (elements > 0) info.data += view.offset * element_bytes;
  if (elements > 0 && !IsContiguous(view)) info.strides = view.strides;
  return info;
}

}  // namespace

absl::StatusOr<std::vector<TensorInfo>> ReadTorchTensors(std::string_view file) {
  ASSIGN_OR_RETURN(const TorchZip zip, TorchZip::Read(file));
  if (const std::string_view order = zip.Find("byteorder");
      order.data() != nullptr && order != "little") {
    return absl::InvalidArgumentError(
        absl::StrCat("has storages of byte order \"", OneLine(order, kMostNameBytes),
                     "\", only little is read; save it again on a little-endian machine"));
  }
  // A copy, because a mapped file may change while it is read.
  const std::string pickle(zip.Find("data.pkl").substr(0, kMostPickleBytes + 1));
  absl::StatusOr<std::vector<NamedView>> views = ReadTorchPickle(pickle);
  if (!views.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("is not read: ", std::string(views.status().message())));
  }
  std::vector<TensorInfo> tensors;
  for (const NamedView& view : *views) {
    ASSIGN_OR_RETURN(tensors.emplace_back(), PlaceView(view, zip));
  }
  return tensors;
}

struct TorchFile::Impl {
  std::string path;
  std::unique_ptr<MappedFile> mapping;
  std::vector<TensorInfo> tensors;
  std::unordered_map<std::string, size_t> by_name;
};

TorchFile::TorchFile() : impl_(std::make_unique<Impl>()) {}
TorchFile::~TorchFile() = default;

absl::StatusOr<std::unique_ptr<TorchFile>> TorchFile::Open(const std::string& path) {
  std::unique_ptr<TorchFile> file(new TorchFile());
  Impl& impl = *file->impl_;
  impl.path = path;
  ASSIGN_OR_RETURN(impl.mapping, MappedFile::Open(path));
  absl::StatusOr<std::vector<TensorInfo>> tensors = ReadTorchTensors(impl.mapping->bytes());
  RETURN_IF_ERROR(impl.mapping->Intact());
  if (!tensors.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " ", std::string(tensors.status().message())));
  }
  impl.tensors = *std::move(tensors);
  for (size_t i = 0; i < impl.tensors.size(); ++i) impl.by_name.emplace(impl.tensors[i].name, i);
  return file;
}

const std::vector<TensorInfo>& TorchFile::tensors() const { return impl_->tensors; }

const TensorInfo* TorchFile::Find(const std::string& name) const {
  const auto it = impl_->by_name.find(name);
  return it == impl_->by_name.end() ? nullptr : &impl_->tensors[it->second];
}

const std::string& TorchFile::path() const { return impl_->path; }

absl::Status TorchFile::Intact() const { return impl_->mapping->Intact(); }

}  // namespace coxswain
