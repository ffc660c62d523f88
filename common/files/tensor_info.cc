#include "common/files/tensor_info.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status_macros.h"

namespace coxswain {
namespace {

template <typename Bits, typename Convert>
void ConvertAll(const uint8_t* from, int64_t count, float* out, Convert convert) {
  for (int64_t i = 0; i < count; ++i) {
    Bits bits;
    std::memcpy(&bits, from + i * static_cast<int64_t>(sizeof(Bits)), sizeof(Bits));
    out[i] = convert(bits);
  }
}

// `count` elements that lie at `from`, one behind the other, in the dtype of `tensor`.
absl::Status ConvertToFloat(const TensorInfo& tensor, const uint8_t* from, int64_t count,
                            float* out) {
  switch (tensor.dtype) {
    case ElementType::kF32:
      if (count > 0) std::memcpy(out, from, static_cast<size_t>(count) * sizeof(float));
      return absl::OkStatus();
    case ElementType::kBF16:
      ConvertAll<uint16_t>(from, count, out, &Bf16ToFloat);
      return absl::OkStatus();
    case ElementType::kF16:
      ConvertAll<uint16_t>(from, count, out, &HalfToFloat);
      return absl::OkStatus();
    case ElementType::kF64:
      ConvertAll<double>(from, count, out, [](double value) { return static_cast<float>(value); });
      return absl::OkStatus();
    default:
      return absl::InvalidArgumentError(absl::StrCat("tensor \"", tensor.name, "\" has dtype ",
                                                     std::string(ElementName(tensor.dtype)),
                                                     ", expected F32, BF16, F16 or F64"));
  }
}

int64_t ElementBytes(const TensorInfo& tensor) { return ElementBits(tensor.dtype) / 8; }

// Bytes from the first element to the end of the last one in memory.
int64_t SpanBytes(const TensorInfo& tensor) {
  if (tensor.strides.empty() || tensor.bytes == 0) return tensor.bytes;
  int64_t last = 0;
  for (size_t d = 0; d < tensor.shape.size(); ++d) {
    last += (tensor.shape[d] - 1) * tensor.strides[d];
  }
  return (last + 1) * ElementBytes(tensor);
}

template <size_t kBytes>
void CopyRun(const uint8_t* from, int64_t stride, int64_t count, uint8_t* out) {
  for (int64_t i = 0; i < count; ++i) {
    std::memcpy(out + i * static_cast<int64_t>(kBytes),
                from + i * stride * static_cast<int64_t>(kBytes), kBytes);
  }
}

void CopyRun(int64_t element_bytes, const uint8_t* from, int64_t stride, int64_t count,
             uint8_t* out) {
  switch (element_bytes) {
    case 1:
      return CopyRun<1>(from, stride, count, out);
    case 2:
      return CopyRun<2>(from, stride, count, out);
    case 4:
      return CopyRun<4>(from, stride, count, out);
    default:
      return CopyRun<8>(from, stride, count, out);
  }
}

// Walks over the elements of a tensor with strides, in the order of the rows.
class StridedWalk {
 public:
  StridedWalk(const TensorInfo& tensor, int64_t begin)
      : tensor_(tensor), index_(tensor.shape.size()) {
    for (size_t d = index_.size(); d-- > 0; begin /= tensor.shape[d]) {
      index_[d] = begin % tensor.shape[d];
      place_ += index_[d] * tensor.strides[d];
    }
  }

  // Copies at most `count` elements, those that are left of a row, and steps behind them.
  int64_t CopyRow(int64_t count, uint8_t* out) {
    const int64_t stride = tensor_.strides.back();
    count = std::min(count, tensor_.shape.back() - index_.back());
    const int64_t bytes = ElementBytes(tensor_);
    CopyRun(bytes, tensor_.data + place_ * bytes, stride, count, out);
    index_.back() += count;
    place_ += count * stride;
    for (size_t d = index_.size() - 1; d > 0 && index_[d] == tensor_.shape[d]; --d) {
      place_ += tensor_.strides[d - 1] - tensor_.shape[d] * tensor_.strides[d];
      index_[d] = 0;
      ++index_[d - 1];
    }
    return count;
  }

 private:
  const TensorInfo& tensor_;
  std::vector<int64_t> index_;
  int64_t place_ = 0;  // in elements from `data`
};

}  // namespace

int64_t TensorInfo::elements() const {
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  return count;
}

std::string ShapeText(const std::vector<int64_t>& shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

void ReleasePages(const TensorInfo& tensor) {
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<uintptr_t>(tensor.data);
  const uintptr_t first = (begin + page - 1) / page * page;
  const uintptr_t last = (begin + static_cast<uintptr_t>(SpanBytes(tensor))) / page * page;
  if (first >= last) return;
  ::madvise(const_cast<uint8_t*>(tensor.data) + (first - begin), last - first, MADV_DONTNEED);
}

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
  const int64_t bytes = ElementBytes(tensor);
  if (tensor.strides.empty()) {
    return ConvertToFloat(tensor, tensor.data + begin * bytes, count, out);
  }
  constexpr int64_t kElementsAtOnce = int64_t{1} << 16;
  std::vector<uint8_t> piece(static_cast<size_t>(std::min(count, kElementsAtOnce) * bytes));
  for (int64_t done = 0; done < count; done += kElementsAtOnce) {
    const int64_t now = std::min(kElementsAtOnce, count - done);
    CopyRangeBytes(tensor, begin + done, now, piece.data());
    RETURN_IF_ERROR(ConvertToFloat(tensor, piece.data(), now, out + done));
  }
  return absl::OkStatus();
}

void CopyRangeBytes(const TensorInfo& tensor, int64_t begin, int64_t count, uint8_t* out) {
  if (count == 0) return;
  const int64_t bytes = ElementBytes(tensor);
  if (tensor.strides.empty()) {
    std::memcpy(out, tensor.data + begin * bytes, static_cast<size_t>(count * bytes));
    return;
  }
  StridedWalk walk(tensor, begin);
  for (int64_t done = 0; done < count;) {
    done += walk.CopyRow(count - done, out + done * bytes);
  }
}

}  // namespace coxswain
