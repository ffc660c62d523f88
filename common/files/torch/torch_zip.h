// The container of files that torch.save writes since 1.6: a zip whose entries are stored as they
// are, so that a mapping of the file shows the storages of tensors in place.
// Source: PKWARE APPNOTE.TXT 6.3.10, sections 4.3 and 4.5.3; torch caffe2/serialize/
// inline_container.cc.
#ifndef COXSWAIN_COMMON_FILES_TORCH_TORCH_ZIP_H_
#define COXSWAIN_COMMON_FILES_TORCH_TORCH_ZIP_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "absl/status/statusor.h"

namespace coxswain {

class TorchZip {
 public:
  // Finds the entries of `file`, all bytes of it, which must outlive this. Costs no more than the
  // directory at its end, whatever that claims. InvalidArgument, without the path: it is no zip
  // (one that torch wrote before 1.6 is named as such); an entry is compressed or encrypted, lies
  // outside the file or in another, is there twice, or has a name that leaves the archive; there is
  // not exactly one FOLDER/data.pkl.
  static absl::StatusOr<TorchZip> Read(std::string_view file);

  // The bytes of an entry, by its name below the archive's folder: "data.pkl", "data/0". Null data:
  // absent. An empty entry has data.
  std::string_view Find(const std::string& name) const;

  // The directory at the end of the file: names, sizes, places and check sums of all entries.
  std::string_view directory() const { return directory_; }

 private:
  std::string_view directory_;
  std::unordered_map<std::string, std::string_view> entries_;
};

}  // namespace coxswain

#endif  // COXSWAIN_COMMON_FILES_TORCH_TORCH_ZIP_H_
