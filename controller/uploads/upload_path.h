// How an uploaded file is named, by people and on the disk.
#ifndef COXSWAIN_CONTROLLER_UPLOADS_UPLOAD_PATH_H_
#define COXSWAIN_CONTROLLER_UPLOADS_UPLOAD_PATH_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace coxswain::uploads {

// A file as its owner announces it.
struct Upload {
  std::string owner;   // name of a user; empty: operators
  std::string name;    // IsUploadName
  std::string sha256;  // of the content: 64 digits in lower case
  int64_t bytes = 0;
};

// 1 to 255 bytes of UTF-8 without slashes and control characters; not "." and not "..".
bool IsUploadName(std::string_view name);

// "upload://SHA256/NAME": what a job writes as `path`.
std::string UploadText(const Upload& upload);

// Where files of `owner` lie below `root`. No two owners share a folder.
std::string OwnerFolder(const std::string& root, const std::string& owner);

// The folder of all uploads.
std::string UploadsFolder(const std::string& state_dir);

// The absolute path of the file that `text`, "upload://SHA256/NAME", names for a job of `owner`. A
// user has own files; an operator (empty) has those of everybody. InvalidArgument: `text` is no
// such name. NotFound: `owner` has no such file, or has not brought all of it.
absl::StatusOr<std::string> ResolveUpload(const std::string& state_dir, const std::string& owner,
                                          const std::string& text);

}  // namespace coxswain::uploads

#endif  // COXSWAIN_CONTROLLER_UPLOADS_UPLOAD_PATH_H_
