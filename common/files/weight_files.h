// The weights of a Hugging Face directory, whether in one file or in shards.
#ifndef COXSWAIN_COMMON_FILES_WEIGHT_FILES_H_
#define COXSWAIN_COMMON_FILES_WEIGHT_FILES_H_

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/files/safetensors.h"

namespace coxswain {

// The weights of a Hugging Face directory: model.safetensors, or model.safetensors.index.json and
// its shards. NotFound names the directory and what was looked for, InvalidArgument two tensors
// that the renames make one.
class WeightFiles {
 public:
  // Prefixes of names in the files, and what they are called here.
  using Renames = std::vector<std::pair<std::string_view, std::string_view>>;
  static absl::StatusOr<std::unique_ptr<WeightFiles>> Open(const std::string& directory,
                                                           const Renames& renames = {});
  ~WeightFiles();
  const TensorInfo* Find(const std::string& name) const;  // null: absent
  std::vector<const TensorInfo*> tensors() const;         // each with its name in the file
  absl::Status Intact() const;                            // MappedFile::Intact of all its files
  static std::string Renamed(std::string_view name, const Renames& renames);

 private:
  WeightFiles();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace coxswain

#endif  // COXSWAIN_COMMON_FILES_WEIGHT_FILES_H_
