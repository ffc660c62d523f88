// Collectives among the ranks of one epoch. nccl.cc (GPUs) and gloo.cc (CPUs) both define this
// class; one of them is linked, nothing dispatches at run time.
#ifndef COXSWAIN_WORKER_COMM_COLLECTIVES_H_
#define COXSWAIN_WORKER_COMM_COLLECTIVES_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/dtype.h"

namespace coxswain::kernels {
class Stream;
}

namespace coxswain::comm {

// How the ranks of one epoch find each other: keys set by one rank become readable by all.

// Implementations: the agent's relay through the controller (Worker.Connect), and an in-process map
// for ranks as threads. Thread-safe.
class Rendezvous {
 public:
  virtual ~Rendezvous() = default;
  virtual absl::Status Set(const std::string& key, const std::string& value) = 0;
  // Waits until `key` is set. DeadlineExceeded names the key; Cancelled when the epoch was aborted.
  virtual absl::StatusOr<std::string> Get(const std::string& key,
                                          std::chrono::milliseconds timeout) = 0;
};

// Ranks are numbered replica by replica: rank = replica * shard + shard index.
enum class Communicator {
  kWorld,      // all ranks
  kShard,      // the ranks of one replica, by shard index
  kReplicate,  // the ranks of one shard index, by replica
};

struct GroupConfig {
  int rank = 0;
  int world_size = 1;
  int shard = 1;                                // ranks of one replica; divides world_size
  std::string interface_address = "127.0.0.1";  // address the other ranks reach this one by
  // Processes of one machine that say otherwise are of different hosts (--host-id); empty: one
  // host.
  std::string host_id = {};
  std::chrono::milliseconds timeout{60000};  // of formation and of each collective
};

// A region is memory of a GPU, of one allocation.
struct DeviceRegion {
  void* data = nullptr;
  int64_t bytes = 0;
};

// How far one communicator of a rank has got, by the numbers of Progress.
struct CommunicatorProgress {
  std::string name;            // "world", "shard", "replicate"; of equal ranks the first
  int size = 1;                // ranks
  uint64_t started = 0;        // newest that this rank is or was in, 0: none
  uint64_t finished = 0;       // newest that has ended
  std::string operation = {};  // of `started`
  int64_t bytes = 0;           // that it gives or takes on this rank
  std::chrono::milliseconds in_it_for{0};  // while started > finished
};

// How far the collectives of a rank have got. They are numbered from 1 in the order of the calls,
// the same on all ranks; one that a graph replays keeps the number of the call it was captured by.
struct Progress {
  uint64_t started = 0;                                  // newest that this rank is or was in
  uint64_t finished = 0;                                 // newest that has ended
  std::string operation;                                 // of the one in progress; empty: none is
  std::chrono::milliseconds in_it_for{0};                // how long that one has been in progress
  std::vector<CommunicatorProgress> communicators = {};  // those of several ranks
};

// Every call is collective: the ranks of a communicator make the same calls in the same order, and
// all ranks take the communicators in the same order. W and rank are those of the communicator. The
// calls of one communicator go to one stream, or to streams that the caller puts in order.
//
// CPU: a call is done on return and `stream` is null. A peer that dies or is late gives Unavailable
// naming the operation, its ordinal, this rank and those it waits for. The process ignores SIGPIPE:
// what a rank writes to such a peer would end it.
// GPU: a call is enqueued on `stream`, touches no host memory of the caller and may be captured
// into a graph. What goes wrong later is told by Poll(), and ends what the streams still hold of
// the group.
//
// Sums of float32 and bfloat16 are made in float32 (GPU: bfloat16 as NCCL does, but for copies). On
// the CPU, and by copies, every sum is taken in rank order: on the CPU equal bits on every rank,
// from run to run and in both calls. After Abort() every call, also one in progress, gives
// Cancelled. Destroying a group closes it at once: another rank still inside a call then gets
// Unavailable, so destroy when every rank's last result is known, or to abort. GPU: graphs that
// captured calls are destroyed before the group.
class Collectives {
 public:
  // Forms the communicators in the order of Communicator and checks each by an all-reduce of rank
  // ids. Communicators of the same ranks are one. world_size 1 needs no rendezvous. On a GPU they
  // are formed on the device of the calling thread. Unavailable or DeadlineExceeded names a rank
  // that is missing, FailedPrecondition what the host lacks.
  static absl::StatusOr<std::unique_ptr<Collectives>> Form(const GroupConfig& config,
                                                           Rendezvous* rendezvous);
  ~Collectives();

  // What the bits of sums depend on beside the ranks: library and settings. Equal on all ranks.
  static std::string Fingerprint();

  // data[0..n) becomes its sum over the communicator.
  absl::Status AllReduceSum(Communicator comm, void* data, int64_t n, kernels::DType dtype,
                            kernels::Stream* stream);
  absl::Status AllReduceSum(Communicator comm, double* data, int64_t n, kernels::Stream* stream);

  // receive[0..n) becomes the sum of part `rank` of every rank's send[0..W n), part r being
  // [r n, (r+1) n). In place when receive = send + rank n; no other overlap.
  absl::Status ReduceScatterSum(Communicator comm, const void* send, void* receive, int64_t n,
                                kernels::DType dtype, kernels::Stream* stream);

  // total[0..n) gains that sum, in float32; part `rank` of `send` may have any value afterwards. A
  // bfloat16 sum made by copies between GPUs is not rounded before.
  absl::Status ReduceScatterAdd(Communicator comm, void* send, float* total, int64_t n,
                                kernels::DType dtype, kernels::Stream* stream);

  // receive[r n, (r+1) n) becomes rank r's send[0..n). In place when send = receive + rank n; no
  // other overlap.
  absl::Status AllGather(Communicator comm, const void* send, void* receive, int64_t n,
                         kernels::DType dtype, kernels::Stream* stream) {
    return AllGatherBytes(comm, send, receive, n * kernels::DTypeBytes(dtype), stream);
  }
  absl::Status AllGatherBytes(Communicator comm, const void* send, void* receive, int64_t bytes,
                              kernels::Stream* stream);

  // On a GPU it lets gathers and reductions of what lies in `regions` copy between the GPUs of a
  // host instead of taking multiprocessors from the compute beside them. It is called once, by all
  // ranks, between collectives; a call's pointers must then have the same place in the regions of
  // every rank, that of a part in place excepted. The regions outlive the group. Where a host lets
  // no process open another's memory calls stay as they were. On the CPU it does nothing.
  absl::Status Share(const std::vector<DeviceRegion>& regions);
  // Says for people what moves data: "copies between GPUs of a host, NCCL", "NCCL (rank 1: ...)".
  std::string transport() const;
  // What the bits of sums of this group depend on beside Fingerprint(), once Share has returned:
  // transport, how ranks lie on hosts, and what was chosen to add up. Equal on all ranks; empty for
  // one rank. CPU: the transport alone, as sums are in rank order however ranks lie.
  std::string fingerprint() const;

  // Returns when every rank has entered it.
  absl::Status Barrier();

  // Any thread may ask for the first thing that went wrong: a call's error, an error of the
  // transport, a collective in progress for longer than the timeout, Cancelled after Abort().
  absl::Status Poll() const;
  Progress progress() const;  // any thread
  void Abort();               // any thread; wakes a call in progress

  int rank() const;
  int world_size() const;
  int rank(Communicator comm) const;  // place of this rank in it
  int size(Communicator comm) const;

 private:
  Collectives();
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace coxswain::comm

#endif  // COXSWAIN_WORKER_COMM_COLLECTIVES_H_
