// A tensor of a weight file, whatever the format of the file.
#ifndef COXSWAIN_COMMON_FILES_TENSOR_INFO_H_
#define COXSWAIN_COMMON_FILES_TENSOR_INFO_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/element_type.h"

namespace coxswain {

struct TensorInfo {
  std::string name;
  ElementType dtype{};
  std::vector<int64_t> shape;
  int64_t bytes = 0;
  const uint8_t* data = nullptr;  // into the mapping; not aligned: memcpy, never cast
  // In elements, one for each extent of the shape. Empty: the elements lie one behind the other, in
  // the order of the rows. Else only CopyRange* read them: `data` is the place of the first one.
  std::vector<int64_t> strides = {};

  int64_t elements() const;
};

// "[90, 72]".
std::string ShapeText(const std::vector<int64_t>& shape);

// Lets go of the memory that a tensor of a mapped file has been read into; it is read again when it
// is used again.
void ReleasePages(const TensorInfo& tensor);

// Copies a tensor of dtype F32, BF16, F16 or F64 as float32. InvalidArgument names tensor and
// dtype.
absl::Status CopyAsFloat(const TensorInfo& tensor, float* out);
// Copies elements [begin, begin + count) of it.
absl::Status CopyRangeAsFloat(const TensorInfo& tensor, int64_t begin, int64_t count, float* out);

// Copies elements [begin, begin + count), which it has, in the tensor's own dtype of whole bytes.
void CopyRangeBytes(const TensorInfo& tensor, int64_t begin, int64_t count, uint8_t* out);

}  // namespace coxswain

#endif  // COXSWAIN_COMMON_FILES_TENSOR_INFO_H_
