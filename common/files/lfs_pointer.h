// A file that Git LFS has not fetched: a pointer of a few lines stands in its place.
#ifndef COXSWAIN_COMMON_FILES_LFS_POINTER_H_
#define COXSWAIN_COMMON_FILES_LFS_POINTER_H_

#include <string>
#include <string_view>

namespace coxswain {

// What is wrong with a file that begins so, and what to do: "is a Git LFS pointer ...". Empty: it
// is no pointer. Source: the specification of Git LFS, "The Pointer".
std::string LfsPointerText(std::string_view head);

}  // namespace coxswain

#endif  // COXSWAIN_COMMON_FILES_LFS_POINTER_H_
