// NCCL, loaded when the first group of several ranks forms: a worker that trains alone needs none.
#ifndef COXSWAIN_WORKER_COMM_NCCL_LIBRARY_H_
#define COXSWAIN_WORKER_COMM_NCCL_LIBRARY_H_

#include <nccl.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace coxswain::comm {

struct NcclLibrary {
  decltype(&ncclGetVersion) GetVersion;
  decltype(&ncclGetUniqueId) GetUniqueId;
  decltype(&ncclGetErrorString) GetErrorString;
  decltype(&ncclGetLastError) GetLastError;
  decltype(&ncclCommInitRankConfig) CommInitRankConfig;
  decltype(&ncclCommSplit) CommSplit;
  decltype(&ncclCommGetAsyncError) CommGetAsyncError;
  decltype(&ncclCommAbort) CommAbort;
  decltype(&ncclGroupStart) GroupStart;
  decltype(&ncclGroupEnd) GroupEnd;
  decltype(&ncclAllReduce) AllReduce;
  decltype(&ncclReduceScatter) ReduceScatter;
  decltype(&ncclAllGather) AllGather;
  int version = 0;  // as NCCL_VERSION_CODE
};

// The library of this process. FailedPrecondition in one sentence: libnccl.so.2 is missing, lacks a
// function, or is older than what this build needs.
absl::StatusOr<const NcclLibrary*> LoadNccl();

std::string NcclVersionText(int version);  // 22809 -> "2.28.9"

// What the environment says now of the settings by which NCCL chooses how to add up: " NAME=value"
// of each that is set.
std::string NcclSettings();

// OK for ncclSuccess and ncclInProgress; else a status that names the call: Unavailable for what a
// peer or the network did, Internal for what the device or a wrong call did.
absl::Status NcclStatus(const NcclLibrary& nccl, ncclResult_t result, const std::string& call);

}  // namespace coxswain::comm

#endif  // COXSWAIN_WORKER_COMM_NCCL_LIBRARY_H_
