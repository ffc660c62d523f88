#include "worker/comm/nccl_library.h"

#include <dlfcn.h>

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace coxswain::comm {
namespace {

constexpr char kFile[] = "libnccl.so.2";
// The configuration of a communicator is a struct of the version that this build saw.
constexpr int kOldest = NCCL_VERSION_CODE / 100 * 100;

// By which NCCL chooses how to add up.
constexpr const char* kSettings[] = {"NCCL_ALGO",          "NCCL_PROTO",    "NCCL_MIN_NCHANNELS",
                                     "NCCL_MAX_NCHANNELS", "NCCL_MIN_CTAS", "NCCL_MAX_CTAS",
                                     "NCCL_NVLS_ENABLE",   "NCCL_NTHREADS"};

template <typename Fn>
absl::Status Find(void* library, const char* name, Fn* function) {
  *function = reinterpret_cast<Fn>(dlsym(library, name));
  if (*function != nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(kFile, " has no ", name, ": install NCCL ",
                                                    NcclVersionText(kOldest),
                                                    " or newer for a job of several GPUs"));
}

absl::StatusOr<NcclLibrary> Load() {
  void* library = dlopen(kFile, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("a job of several GPUs needs NCCL, and ", dlerror(), ": install NCCL ",
                     NcclVersionText(kOldest), " or newer, or name its folder in LD_LIBRARY_PATH"));
  }
  NcclLibrary nccl{};
  RETURN_IF_ERROR(Find(library, "ncclGetVersion", &nccl.GetVersion));
  nccl.GetVersion(&nccl.version);
  if (nccl.version < kOldest) {
    return absl::FailedPreconditionError(
        absl::StrCat(kFile, " is NCCL ", NcclVersionText(nccl.version), ", this build needs ",
                     NcclVersionText(kOldest), " or newer for a job of several GPUs"));
  }
  RETURN_IF_ERROR(Find(library, "ncclGetUniqueId", &nccl.GetUniqueId));
  RETURN_IF_ERROR(Find(library, "ncclGetErrorString", &nccl.GetErrorString));
  RETURN_IF_ERROR(Find(library, "ncclGetLastError", &nccl.GetLastError));
  RETURN_IF_ERROR(Find(library, "ncclCommInitRankConfig", &nccl.CommInitRankConfig));
  RETURN_IF_ERROR(Find(library, "ncclCommSplit", &nccl.CommSplit));
  RETURN_IF_ERROR(Find(library, "ncclCommGetAsyncError", &nccl.CommGetAsyncError));
  RETURN_IF_ERROR(Find(library, "ncclCommAbort", &nccl.CommAbort));
  RETURN_IF_ERROR(Find(library, "ncclGroupStart", &nccl.GroupStart));
  RETURN_IF_ERROR(Find(library, "ncclGroupEnd", &nccl.GroupEnd));
  RETURN_IF_ERROR(Find(library, "ncclAllReduce", &nccl.AllReduce));
  RETURN_IF_ERROR(Find(library, "ncclReduceScatter", &nccl.ReduceScatter));
  RETURN_IF_ERROR(Find(library, "ncclAllGather", &nccl.AllGather));
  return nccl;
}

}  // namespace

absl::StatusOr<const NcclLibrary*> LoadNccl() {
  static const absl::StatusOr<NcclLibrary> library = Load();
  RETURN_IF_ERROR(library.status());
  return &*library;
}

std::string NcclVersionText(int version) {
  return absl::StrCat(version / 10000, ".", version / 100 % 100, ".", version % 100);
}

std::string NcclSettings() {
  std::string text;
  for (const char* name : kSettings) {
    const char* value = std::getenv(name);
    if (value != nullptr) absl::StrAppend(&text, " ", name, "=", value);
  }
  return text;
}

absl::Status NcclStatus(const NcclLibrary& nccl, ncclResult_t result, const std::string& call) {
  if (result == ncclSuccess || result == ncclInProgress) return absl::OkStatus();
  const char* detail = nccl.GetLastError(nullptr);
  const std::string message = absl::StrCat(call, ": NCCL: ", nccl.GetErrorString(result),
                                           detail == nullptr || *detail == '\0' ? "" : "; ",
                                           detail == nullptr ? "" : detail);
  if (result == ncclRemoteError || result == ncclSystemError)
    return absl::UnavailableError(message);
  return absl::InternalError(message);
}

}  // namespace coxswain::comm
