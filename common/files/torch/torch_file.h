// Reads a file that torch.save wrote of a state dict: pytorch_model.bin. Tensors are read, and
// nothing else of pickle; nothing that the file says is run.
#ifndef COXSWAIN_COMMON_FILES_TORCH_TORCH_FILE_H_
#define COXSWAIN_COMMON_FILES_TORCH_TORCH_FILE_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/files/tensor_info.h"

namespace coxswain {

// A mapped file. Tensors stay valid as long as it lives; several may share their bytes, and one may
// have strides. Open refuses (InvalidArgument, with the path, what was found and what to do): what
// TorchZip and ReadTorchPickle refuse, big-endian storages, a storage that the file lacks or that
// is shorter than it says, a tensor that leaves its storage or has more elements than it. What was
// read of tensors counts once Intact, asked after it, says OK.
class TorchFile {
 public:
  static absl::StatusOr<std::unique_ptr<TorchFile>> Open(const std::string& path);
  ~TorchFile();

  const std::vector<TensorInfo>& tensors() const;         // in the order of the state dict
  const TensorInfo* Find(const std::string& name) const;  // null: absent
  const std::string& path() const;
  absl::Status Intact() const;  // MappedFile::Intact

 private:
  TorchFile();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The tensors of `file`, all bytes of one that torch.save wrote, into which they point. Errors as
// TorchFile::Open, without the path.
absl::StatusOr<std::vector<TensorInfo>> ReadTorchTensors(std::string_view file);

}  // namespace coxswain

#endif  // COXSWAIN_COMMON_FILES_TORCH_TORCH_FILE_H_
