// What the GPU's Collectives holds and calls: nccl.cc has the calls of a formed group,
// nccl_first_calls.cc those that a new one begins with.
#ifndef COXSWAIN_WORKER_COMM_NCCL_IMPL_H_
#define COXSWAIN_WORKER_COMM_NCCL_IMPL_H_

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/dtype.h"
#include "worker/comm/collectives.h"
#include "worker/comm/nccl_group.h"
#include "worker/comm/peer_copies.h"
#include "worker/comm/sum_probe.h"

namespace coxswain::comm {

inline ncclDataType_t NcclType(kernels::DType dtype) {
  return dtype == kernels::DType::kFloat32 ? ncclFloat32 : ncclBfloat16;
}

inline const char* NcclTypeName(kernels::DType dtype) {
  return dtype == kernels::DType::kFloat32 ? "float32" : "bfloat16";
}

struct Collectives::Impl {
  ~Impl() {
    group.reset();                                         // its watch ends the waits of copies
    if (copies != nullptr) (void)cudaDeviceSynchronize();  // no stream reads other ranks any more
    copies.reset();
    if (stream != nullptr) (void)cudaStreamDestroy(stream);
    (void)cudaFree(warm_up);
    (void)cudaFree(device_words);
    (void)cudaFreeHost(host_words);
  }

  GroupConfig config;
  std::unique_ptr<NcclGroup> group;    // null: one rank
  bool aborted_alone = false;          // of one rank
  std::unique_ptr<PeerCopies> copies;  // null: not shared, or not possible
  std::string transport = "NCCL";
  std::string nccl_sums;  // what NCCL's sums depend on in this group

  // Of the calls that wait on the host: the check of a new group and the barrier.
  cudaStream_t stream = nullptr;
  double *device_words = nullptr, *host_words = nullptr;  // [world size], host pinned
  void* warm_up = nullptr;  // what the first calls move; gone when the group is formed
  // Of the first calls: they measure how NCCL adds up here.
  std::unique_ptr<SumProbe> probe;
  std::vector<char> probed;

  absl::Status OpenBlockingCalls();
  absl::StatusOr<std::vector<std::string>> Exchange(const std::string& mine);
  bool Copies(Communicator comm, const void* whole, int64_t bytes) const {
    return copies != nullptr && copies->Takes(group->members(comm), whole, bytes);
  }
  absl::Status Verify(Communicator comm);
  absl::Status WarmUp();
  absl::Status WarmUpOne(Communicator comm);
  absl::Status LoadNumbers(kernels::DType dtype, int64_t bytes);
  absl::Status TakeResult(const void* result, int64_t bytes);
  absl::Status CompareNotes();
  absl::Status Alone() const;
  absl::Status Sum(Communicator comm, void* data, int64_t n, ncclDataType_t type,
                   const char* type_name, cudaStream_t on);
  // Copies, or NCCL, which takes no total: then the sum goes to `receive` alone and *added is
  // false.
  absl::Status Scatter(Communicator comm, const PeerCopies::Scatter& call, cudaStream_t on,
                       bool* added = nullptr);
  absl::Status Gather(Communicator comm, const void* send, void* receive, int64_t bytes,
                      cudaStream_t on);
};

}  // namespace coxswain::comm

#endif  // COXSWAIN_WORKER_COMM_NCCL_IMPL_H_
