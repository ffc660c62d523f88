// Collectives over NCCL. What communicators are and how they end stands in nccl_group.cc, what a
// new group calls first in nccl_first_calls.cc.
#include <memory>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "kernels/cuda/stream.h"
#include "kernels/tensors/whole_tensors.h"
#include "worker/comm/collectives.h"
#include "worker/comm/cuda_calls.h"
#include "worker/comm/members.h"
#include "worker/comm/nccl_group.h"
#include "worker/comm/nccl_impl.h"
#include "worker/comm/nccl_library.h"
#include "worker/comm/peer_copies.h"
#include "worker/comm/peer_memory.h"

namespace coxswain::comm {
namespace {

ncclResult_t ResultOf(cudaError_t result) {
  return result == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

}  // namespace

absl::Status Collectives::Impl::Alone() const {
  return aborted_alone ? absl::CancelledError("the group was aborted") : absl::OkStatus();
}

absl::Status Collectives::Impl::Sum(Communicator comm, void* data, int64_t n, ncclDataType_t type,
                                    const char* type_name, cudaStream_t on) {
  if (group == nullptr) return Alone();
  return group->Enqueue(
      comm, OperationName("all_reduce", n, type_name, comm), on, [&](ncclComm_t nccl) {
        if (nccl == nullptr || n == 0) return ncclSuccess;
        return group->nccl().AllReduce(data, data, static_cast<size_t>(n), type, ncclSum, nccl, on);
      });
}

// Alone, a part is the whole.
absl::Status Collectives::Impl::Scatter(Communicator comm, const PeerCopies::Scatter& call,
                                        cudaStream_t on, bool* added) {
  const int64_t bytes = call.n * kernels::DTypeBytes(call.dtype);
  const auto copy = [&] {
    if (call.send == call.receive || bytes == 0) return cudaSuccess;
    return cudaMemcpyAsync(call.receive, call.send, static_cast<size_t>(bytes),
                           cudaMemcpyDeviceToDevice, on);
  };
  if (group == nullptr) {
    RETURN_IF_ERROR(Alone());
    return CudaStatus(copy(), "cudaMemcpyAsync");
  }
  const std::string operation =
      OperationName("reduce_scatter", call.n, NcclTypeName(call.dtype), comm);
  if (Copies(comm, call.send, bytes * group->members(comm).size())) {
    if (added != nullptr) *added = call.total != nullptr;
    return group->EnqueueCopies(comm, operation, on, [&](int lane) {
      return copies->ReduceScatter(group->members(comm), lane, call, on);
    });
  }
  return group->Enqueue(comm, operation, on, [&](ncclComm_t nccl) {
    if (nccl == nullptr) return ResultOf(copy());
    if (call.n == 0) return ncclSuccess;
    return group->nccl().ReduceScatter(call.send, call.receive, static_cast<size_t>(call.n),
                                       NcclType(call.dtype), ncclSum, nccl, on);
  });
}

absl::Status Collectives::Impl::Gather(Communicator comm, const void* send, void* receive,
                                       int64_t bytes, cudaStream_t on) {
  const auto copy = [&] {
    if (send == receive || bytes == 0) return cudaSuccess;
    return cudaMemcpyAsync(receive, send, static_cast<size_t>(bytes), cudaMemcpyDeviceToDevice, on);
  };
  if (group == nullptr) {
    RETURN_IF_ERROR(Alone());
    return CudaStatus(copy(), "cudaMemcpyAsync");
  }
  const std::string operation = OperationName("all_gather", bytes, "bytes", comm);
  if (Copies(comm, receive, bytes * group->members(comm).size())) {
    return group->EnqueueCopies(comm, operation, on, [&](int lane) {
      return copies->AllGather(group->members(comm), lane, send, receive, bytes, on);
    });
  }
  return group->Enqueue(comm, operation, on, [&](ncclComm_t nccl) {
    if (nccl == nullptr) return ResultOf(copy());
    if (bytes == 0) return ncclSuccess;
    return group->nccl().AllGather(send, receive, static_cast<size_t>(bytes), ncclInt8, nccl, on);
  });
}

// The string of every rank, by rank; all of one length. In no collective.
absl::StatusOr<std::vector<std::string>> Collectives::Impl::Exchange(const std::string& mine) {
  const auto bytes = static_cast<int64_t>(mine.size());
  std::string all(mine.size() * static_cast<size_t>(config.world_size), '\0');
  void* memory = nullptr;
  RETURN_IF_ERROR(CudaStatus(cudaMalloc(&memory, all.size()), "cudaMalloc"));
  const std::unique_ptr<void, cudaError_t (*)(void*)> device(memory, cudaFree);
  char* const own = static_cast<char*>(memory) + config.rank * bytes;
  RETURN_IF_ERROR(
      CudaStatus(cudaMemcpyAsync(own, mine.data(), mine.size(), cudaMemcpyHostToDevice, stream),
                 "cudaMemcpyAsync"));
  RETURN_IF_ERROR(Gather(Communicator::kWorld, own, memory, bytes, stream));
  RETURN_IF_ERROR(group->Wait(stream));
  RETURN_IF_ERROR(
      CudaStatus(cudaMemcpyAsync(all.data(), memory, all.size(), cudaMemcpyDeviceToHost, stream),
                 "cudaMemcpyAsync"));
  RETURN_IF_ERROR(group->Wait(stream));
  std::vector<std::string> strings;
  for (int r = 0; r < config.world_size; ++r) {
    strings.push_back(all.substr(static_cast<size_t>(r) * mine.size(), mine.size()));
  }
  return strings;
}

// As the process was started: forming a group adds what NCCL's configuration files say, and ranks
// of one gang may have formed others before or not.
std::string Collectives::Fingerprint() {
  static const std::string settings = NcclSettings();
  const absl::StatusOr<const NcclLibrary*> nccl = LoadNccl();
  return absl::StrCat("nccl=", nccl.ok() ? NcclVersionText((*nccl)->version) : "none", settings);
}

Collectives::Collectives() : impl_(std::make_unique<Impl>()) {}
Collectives::~Collectives() = default;

absl::StatusOr<std::unique_ptr<Collectives>> Collectives::Form(const GroupConfig& config,
                                                               Rendezvous* rendezvous) {
  RETURN_IF_ERROR(CheckConfig(config));
  std::unique_ptr<Collectives> group(new Collectives);
  Impl& impl = *group->impl_;
  impl.config = config;
  if (config.world_size == 1) return group;
  ASSIGN_OR_RETURN(impl.group, NcclGroup::Form(config, rendezvous));
  RETURN_IF_ERROR(impl.OpenBlockingCalls());
  for (Communicator comm : kCommunicators) RETURN_IF_ERROR(impl.Verify(comm));
  RETURN_IF_ERROR(impl.WarmUp());
  return group;
}

absl::Status Collectives::AllReduceSum(Communicator comm, void* data, int64_t n,
                                       kernels::DType dtype, kernels::Stream* stream) {
  return impl_->Sum(comm, data, n, NcclType(dtype), NcclTypeName(dtype),
                    kernels::cuda::Handle(stream));
}

absl::Status Collectives::AllReduceSum(Communicator comm, double* data, int64_t n,
                                       kernels::Stream* stream) {
  return impl_->Sum(comm, data, n, ncclFloat64, "float64", kernels::cuda::Handle(stream));
}

absl::Status Collectives::ReduceScatterSum(Communicator comm, const void* send, void* receive,
                                           int64_t n, kernels::DType dtype,
                                           kernels::Stream* stream) {
  return impl_->Scatter(comm, {.send = send, .receive = receive, .n = n, .dtype = dtype},
                        kernels::cuda::Handle(stream));
}

absl::Status Collectives::ReduceScatterAdd(Communicator comm, void* send, float* total, int64_t n,
                                           kernels::DType dtype, kernels::Stream* stream) {
  char* const own = static_cast<char*>(send) + rank(comm) * n * kernels::DTypeBytes(dtype);
  bool added = false;
  RETURN_IF_ERROR(
      impl_->Scatter(comm, {.send = send, .receive = own, .total = total, .n = n, .dtype = dtype},
                     kernels::cuda::Handle(stream), &added));
  if (!added) kernels::Add({.x_dtype = dtype, .count = n, .x = own, .y = total}, stream);
  return absl::OkStatus();
}

absl::Status Collectives::AllGatherBytes(Communicator comm, const void* send, void* receive,
                                         int64_t bytes, kernels::Stream* stream) {
  return impl_->Gather(comm, send, receive, bytes, kernels::cuda::Handle(stream));
}

absl::Status Collectives::Share(const std::vector<DeviceRegion>& regions) {
  if (impl_->group == nullptr) return impl_->Alone();
  auto copies = PeerCopies::Open(impl_->config, regions,
                                 [this](const std::string& mine) { return impl_->Exchange(mine); });
  if (absl::IsFailedPrecondition(copies.status())) {
    impl_->transport = absl::StrCat("NCCL (", std::string(copies.status().message()), ")");
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(copies.status());
  const std::vector<std::string>& hosts = (*copies)->hosts();
  if (std::set<std::string>(hosts.begin(), hosts.end()).size() == hosts.size()) {
    impl_->transport = "NCCL (no two ranks are on one host)";
    return absl::OkStatus();
  }
  impl_->copies = *std::move(copies);
  impl_->transport = "copies between GPUs of a host, NCCL";
  impl_->group->OnEnd([raw = impl_->copies.get()] { raw->EndWaits(); });
  return absl::OkStatus();
}

std::string Collectives::transport() const { return impl_->transport; }

std::string Collectives::fingerprint() const {
  if (impl_->group == nullptr) return "";
  if (impl_->copies == nullptr) return absl::StrCat("transport=nccl ", impl_->nccl_sums);
  return absl::StrCat("transport=copies,nccl copies=", GroupsOf(impl_->copies->hosts()), " ",
                      impl_->nccl_sums);
}

absl::Status Collectives::Barrier() {
  if (impl_->group == nullptr) return impl_->Alone();
  RETURN_IF_ERROR(impl_->Sum(Communicator::kWorld, impl_->device_words, 1, ncclFloat64,
                             "float64 of a barrier", impl_->stream));
  return impl_->group->Wait(impl_->stream);
}

absl::Status Collectives::Poll() const {
  return impl_->group == nullptr ? impl_->Alone() : impl_->group->Poll();
}

Progress Collectives::progress() const {
  return impl_->group == nullptr ? Progress() : impl_->group->progress();
}

void Collectives::Abort() {
  if (impl_->group == nullptr) {
    impl_->aborted_alone = true;
  } else {
    impl_->group->Abort();
  }
}

int Collectives::rank() const { return impl_->config.rank; }
int Collectives::world_size() const { return impl_->config.world_size; }
int Collectives::rank(Communicator comm) const { return MembersOf(impl_->config, comm).index; }
int Collectives::size(Communicator comm) const { return MembersOf(impl_->config, comm).size(); }

}  // namespace coxswain::comm
