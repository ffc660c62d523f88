// A whole file as bytes.
#ifndef COXSWAIN_COMMON_FILES_READ_FILE_H_
#define COXSWAIN_COMMON_FILES_READ_FILE_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace coxswain {

// What is read whole, at most, in bytes: several times the largest of published models.
inline constexpr int64_t kMaxTokenizerBytes = int64_t{256} << 20;
inline constexpr int64_t kMaxConfigBytes = int64_t{16} << 20;
inline constexpr int64_t kMaxTemplateBytes = int64_t{4} << 20;
// Of any other file: a manifest, a list of weights, a certificate.
inline constexpr int64_t kMaxWholeFileBytes = int64_t{256} << 20;

// What `path` holds until its end; files of /proc, which tell no size, are read too.
// InvalidArgument: it is no regular file, or has more than `max_bytes`. Else errors as ErrnoStatus.
// All name `path`.
absl::StatusOr<std::string> ReadFile(const std::string& path,
                                     int64_t max_bytes = kMaxWholeFileBytes);

// Does the same and waits for what comes through a pipe. For a process of the user's own: what its
// command line names may be one.
absl::StatusOr<std::string> ReadFileOrPipe(const std::string& path,
                                           int64_t max_bytes = kMaxWholeFileBytes);

// InvalidArgument with both numbers: `path` has `bytes`, at most `max_bytes` are read.
absl::Status TooManyBytes(const std::string& path, int64_t bytes, int64_t max_bytes);

// A file that Git LFS has not fetched: a pointer of a few lines stands in its place.

// What is wrong with a file that begins so, and what to do: "is a Git LFS pointer ...". Empty: it
// is no pointer. Source: the specification of Git LFS, "The Pointer".
std::string LfsPointerText(std::string_view head);

}  // namespace coxswain

#endif  // COXSWAIN_COMMON_FILES_READ_FILE_H_
