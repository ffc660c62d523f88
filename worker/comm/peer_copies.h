// Gathers and reductions among the GPUs of one host by copies: the copy engines move the data, so
// that the multiprocessors stay with the compute beside them; only sums take a kernel.
//
// Every rank pulls. A call on a stream:
//   meet     tell each other that the data is ready, and wait until all have said so;
//   pull     the parts of the others, beginning with the next rank's, so that no GPU is read by all
//            at once; a reduction pulls piece by piece into a staging buffer and adds in rank
//            order;
//   meet     nobody writes what another still reads.
// To meet is to write a word of each other's memory and to wait for one's own words, which are
// cleared for the next time: the same launches serve every replay of a graph. Two words of a pair,
// one for each meeting: a rank that writes the first again has passed the second, so that the first
// was cleared. Source: llmq, NCCLCommunicator (copies instead of NCCL's kernels).
#ifndef COXSWAIN_WORKER_COMM_PEER_COPIES_H_
#define COXSWAIN_WORKER_COMM_PEER_COPIES_H_

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/mutex.h"
#include "kernels/dtype.h"
#include "worker/comm/members.h"
#include "worker/comm/peer_memory.h"

namespace coxswain::comm {

class PeerCopies {
 public:
  // Each rank takes so much device memory beside the regions, for all lanes.
  static constexpr int64_t kStagingBytes = int64_t{64} << 20;

  // Every rank of the world calls it; see PeerMemory::Open.
  static absl::StatusOr<std::unique_ptr<PeerCopies>> Open(const GroupConfig& config,
                                                          std::vector<DeviceRegion> regions,
                                                          const PeerMemory::Exchange& exchange);
  ~PeerCopies();

  const std::vector<std::string>& hosts() const { return memory_->hosts(); }  // of the ranks

  // True when all of `members` are on this host, and all bytes of a call are in the regions,
  // aligned and worth it. The answer is the same on all of them when their calls are. [whole,
  // whole + bytes) holds a part of each.
  bool Takes(const Members& members, const void* whole, int64_t bytes) const;

  // They do what Collectives says, of calls that are taken: `receive` of AllGather and `send` of
  // ReduceScatter are in the regions. `lane` tells communicators that can be in a call at one time
  // apart (0-2).
  absl::Status AllGather(const Members& members, int lane, const void* send, void* receive,
                         int64_t bytes, cudaStream_t stream);
  // The part of the sum goes to `receive`, or is added to `total`.
  struct Scatter {
    const void* send = nullptr;
    void* receive = nullptr;
    float* total = nullptr;
    int64_t n = 0;
    kernels::DType dtype = kernels::DType::kFloat32;
  };
  absl::Status ReduceScatter(const Members& members, int lane, const Scatter& scatter,
                             cudaStream_t stream);

  // Any thread may end the waits: from then on no stream waits for another rank.
  void EndWaits();

 private:
  explicit PeerCopies(const GroupConfig& config);
  absl::Status Allocate(const std::string& host_id, const PeerMemory::Exchange& exchange,
                        std::vector<DeviceRegion>* regions);
  // Of a lane, StagingBytes() long: reductions of two lanes may be in a call at one time.
  char* Staging(int lane) const;
  int64_t StagingBytes() const;
  uint32_t* Word(uint32_t* words, int lane, int meeting, int rank) const;
  absl::Status Meet(const Members& members, int lane, int meeting, cudaStream_t stream) const;

  const int rank_, world_;
  const int lanes_;  // that are used: 1 where all communicators of several ranks are one
  decltype(&cuStreamBatchMemOp_v2) batch_ = nullptr;
  uint32_t* words_ = nullptr;  // [lanes, 2 meetings, world], on the device, written by the others
  char* staging_ = nullptr;    // kStagingBytes
  cudaStream_t releases_ = nullptr;
  std::unique_ptr<PeerMemory> memory_;

  Mutex mu_;
  CondVar wake_;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::thread releaser_ ABSL_GUARDED_BY(mu_);
};

}  // namespace coxswain::comm

#endif  // COXSWAIN_WORKER_COMM_PEER_COPIES_H_
