#include "common/files/safetensors/safetensors_writer.h"

#include <string_view>
#include <utility>

#include "common/files/durable_file.h"
#include "common/files/safetensors/safetensors.h"
#include "common/files/safetensors/safetensors_layout.h"
#include "common/status_macros.h"

namespace coxswain {

absl::StatusOr<WrittenFile> WriteSafetensors(const std::string& path,
                                             const std::vector<TensorSource>& tensors,
                                             const std::map<std::string, std::string>& metadata) {
  std::vector<TensorForm> forms;
  for (const TensorSource& tensor : tensors) {
    forms.push_back({tensor.name, tensor.dtype, tensor.shape});
  }
  ASSIGN_OR_RETURN(const SafetensorsLayout layout, LayOutSafetensors(path, forms, metadata));
  ASSIGN_OR_RETURN(std::unique_ptr<DurableFile> file, DurableFile::Create(path));
  RETURN_IF_ERROR(file->Append(layout.head));
  std::vector<uint8_t> buffer;
  for (size_t i = 0; i < layout.order.size(); ++i) {
    buffer.resize(static_cast<size_t>(layout.entries[i].end - layout.entries[i].begin));
    RETURN_IF_ERROR(tensors[layout.order[i]].fill(buffer.data()));
    RETURN_IF_ERROR(file->Append({reinterpret_cast<const char*>(buffer.data()), buffer.size()}));
  }
  RETURN_IF_ERROR(file->Commit());
  return WrittenFile{layout.bytes()};
}

}  // namespace coxswain
