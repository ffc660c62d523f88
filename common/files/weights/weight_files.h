// The weights of a Hugging Face directory, whether in one file or in shards.
#ifndef COXSWAIN_COMMON_FILES_WEIGHTS_WEIGHT_FILES_H_
#define COXSWAIN_COMMON_FILES_WEIGHTS_WEIGHT_FILES_H_

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/files/tensor_info.h"

namespace coxswain {

// The file of a Hugging Face directory by which its weights are found, the first that is there of
// model.safetensors, model.safetensors.index.json, pytorch_model.bin and
// pytorch_model.bin.index.json. NotFound names the directory and what was looked for.
absl::StatusOr<std::string> FindWeights(const std::string& directory);

// The files that hold them, sorted: that file or, of an index, its shards. Errors as FindWeights,
// InvalidArgument for an index that is none.
absl::StatusOr<std::vector<std::string>> WeightPaths(const std::string& directory);

// The weights of a Hugging Face directory, those that FindWeights finds. The errors are those of
// the files, and InvalidArgument for two tensors that the renames make one.
class WeightFiles {
 public:
  // Prefixes of names in the files, and what they are called here.
  using Renames = std::vector<std::pair<std::string_view, std::string_view>>;
  static absl::StatusOr<std::unique_ptr<WeightFiles>> Open(const std::string& directory,
                                                           const Renames& renames = {});
  ~WeightFiles();
  const TensorInfo* Find(const std::string& name) const;      // null: absent
  std::vector<const TensorInfo*> tensors() const;             // each with its name in the file
  const std::string& PathOf(const TensorInfo& tensor) const;  // of the file that holds one of these
  absl::Status Intact() const;                                // MappedFile::Intact of all its files
  static std::string Renamed(std::string_view name, const Renames& renames);

 private:
  WeightFiles();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace coxswain

#endif  // COXSWAIN_COMMON_FILES_WEIGHTS_WEIGHT_FILES_H_
