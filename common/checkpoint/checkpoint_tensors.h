// The trained tensors of a checkpoint, whatever ranks wrote them.
//
// A rank's shard holds the elements that it owns, one contiguous piece per tensor. A tensor that
// one rank owns alone is stored under its name with its shape. A piece of a tensor is stored under
// the same name with shape [elements of the piece]; metadata "coxswain" of that file, a JSON
// object, then has "pieces": {name: {"begin": first element, "shape": shape of the whole tensor}}.
// So every shard is a plain safetensors file.
#ifndef COXSWAIN_COMMON_CHECKPOINT_CHECKPOINT_TENSORS_H_
#define COXSWAIN_COMMON_CHECKPOINT_CHECKPOINT_TENSORS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/element_type.h"
#include "common/files/safetensors/safetensors.h"

namespace coxswain {

// A tensor in one or more pieces, which together hold each element once. Views into mapped files.
struct PiecedTensor {
  struct Piece {
    int64_t begin = 0;  // element of the tensor
    const TensorInfo* values = nullptr;
  };

  PiecedTensor() = default;
  explicit PiecedTensor(const TensorInfo& whole)
      : name(whole.name), dtype(whole.dtype), shape(whole.shape), pieces{{0, &whole}} {}

  int64_t elements() const;

  std::string name;
  ElementType dtype{};
  std::vector<int64_t> shape;
  std::vector<Piece> pieces;  // ascending
};

// They do what the functions of TensorInfo do.
absl::Status CopyRangeAsFloat(const PiecedTensor& tensor, int64_t begin, int64_t count, float* out);
absl::Status CopyAsFloat(const PiecedTensor& tensor, float* out);
// Copies elements [begin, begin + count), which it has, in the tensor's own dtype.
void CopyRangeBytes(const PiecedTensor& tensor, int64_t begin, int64_t count, uint8_t* out);
// Copies all of them likewise.
void CopyBytes(const PiecedTensor& tensor, uint8_t* out);

class CheckpointTensors {
 public:
  // Maps every rank-*.safetensors of `directory`. NotFound when there is none. InvalidArgument
  // names file and tensor: pieces that overlap, leave a gap or disagree on shape or dtype.
  static absl::StatusOr<CheckpointTensors> Open(const std::string& directory);

  const PiecedTensor* Find(const std::string& name) const;  // null: no rank's shard holds it
  const std::map<std::string, PiecedTensor>& tensors() const { return tensors_; }
  const std::string& directory() const { return directory_; }
  // The files in the order of their names.
  const std::vector<std::unique_ptr<SafetensorsFile>>& shards() const { return shards_; }
  absl::Status Intact() const;  // MappedFile::Intact of all shards

 private:
  absl::Status Add(const SafetensorsFile& shard);
  absl::Status CheckCover() const;

  std::string directory_;
  std::vector<std::unique_ptr<SafetensorsFile>> shards_;
  std::map<std::string, PiecedTensor> tensors_;
};

}  // namespace coxswain

#endif  // COXSWAIN_COMMON_CHECKPOINT_CHECKPOINT_TENSORS_H_
