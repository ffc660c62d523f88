// What a new group calls before anyone trains with it: each communicator must have all of its
// ranks, NCCL must have connected, and how it adds up here is measured.
#include <algorithm>
#include <iterator>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/files/hash.h"
#include "common/status_macros.h"
#include "worker/comm/cuda_calls.h"
#include "worker/comm/members.h"
#include "worker/comm/nccl_impl.h"
#include "worker/comm/nccl_library.h"
#include "worker/comm/peer_memory.h"

namespace coxswain::comm {
namespace {

// The warm-up calls: NCCL connects for an algorithm at its first use, and its choice depends on the
// size.
constexpr int64_t kWarmUpBytes[] = {int64_t{4} << 10, int64_t{1} << 20, int64_t{32} << 20};

}  // namespace

absl::Status Collectives::Impl::OpenBlockingCalls() {
  const size_t bytes = static_cast<size_t>(config.world_size) * sizeof(double);
  void *device = nullptr, *host = nullptr;
  RETURN_IF_ERROR(
      CudaStatus(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate"));
  RETURN_IF_ERROR(CudaStatus(cudaMalloc(&device, bytes), "cudaMalloc"));
  device_words = static_cast<double*>(device);
  RETURN_IF_ERROR(CudaStatus(cudaMallocHost(&host, bytes), "cudaMallocHost"));
  host_words = static_cast<double*>(host);
  return absl::OkStatus();
}

// Sums a vector to which each rank adds its number + 1 at its place.
absl::Status Collectives::Impl::Verify(Communicator comm) {
  const Members& members = group->members(comm);
  const int size = members.size();
  const size_t bytes = static_cast<size_t>(size) * sizeof(double);
  std::fill_n(host_words, size, 0.0);
  host_words[members.index] = config.rank + 1;
  RETURN_IF_ERROR(
      CudaStatus(cudaMemcpyAsync(device_words, host_words, bytes, cudaMemcpyHostToDevice, stream),
                 "cudaMemcpyAsync"));
  RETURN_IF_ERROR(Sum(comm, device_words, size, ncclFloat64, "float64", stream));
  RETURN_IF_ERROR(
      CudaStatus(cudaMemcpyAsync(host_words, device_words, bytes, cudaMemcpyDeviceToHost, stream),
                 "cudaMemcpyAsync"));
  RETURN_IF_ERROR(group->Wait(stream));
  for (int r = 0; r < size; ++r) {
    if (host_words[r] == members.ranks[r] + 1) continue;
    return absl::InternalError(absl::StrCat(
        "rank ", config.rank, ", communicator ", NameOf(comm), ": the all-reduce of rank ids gave ",
        host_words[r] - 1, " for rank ", members.ranks[r], "; two processes took the same rank"));
  }
  return absl::OkStatus();
}

absl::Status Collectives::Impl::WarmUpOne(Communicator comm) {
  const int64_t size = group->members(comm).size();
  if (size == 1) return absl::OkStatus();
  char* const data = static_cast<char*>(warm_up);
  for (int64_t bytes : kWarmUpBytes) {
    const int64_t part = bytes / size / 8 * 8;
    char* const own = data + group->members(comm).index * part;
    for (kernels::DType dtype : {kernels::DType::kFloat32, kernels::DType::kBFloat16}) {
      const int64_t element = kernels::DTypeBytes(dtype);
      RETURN_IF_ERROR(LoadNumbers(dtype, bytes));
      RETURN_IF_ERROR(
          Sum(comm, data, bytes / element, NcclType(dtype), NcclTypeName(dtype), stream));
      RETURN_IF_ERROR(TakeResult(data, bytes));
      RETURN_IF_ERROR(LoadNumbers(dtype, bytes));
      RETURN_IF_ERROR(Scatter(
          comm, {.send = data, .receive = own, .n = part / element, .dtype = dtype}, stream));
      RETURN_IF_ERROR(TakeResult(own, part));
    }
    RETURN_IF_ERROR(Gather(comm, own, data, part, stream));
    RETURN_IF_ERROR(group->Wait(stream));
  }
  return absl::OkStatus();
}

absl::Status Collectives::Impl::WarmUp() {
  const auto bytes =
      static_cast<size_t>(*std::max_element(std::begin(kWarmUpBytes), std::end(kWarmUpBytes)));
  RETURN_IF_ERROR(CudaStatus(cudaMalloc(&warm_up, bytes), "cudaMalloc"));
  probe = std::make_unique<SumProbe>(config.rank);
  probed.resize(bytes);
  for (Communicator comm : kCommunicators) RETURN_IF_ERROR(WarmUpOne(comm));
  RETURN_IF_ERROR(CompareNotes());
  probe.reset();
  probed = {};
  return CudaStatus(cudaFree(std::exchange(warm_up, nullptr)), "cudaFree");
}

// This rank's numbers, again and again, into what the first calls move.
absl::Status Collectives::Impl::LoadNumbers(kernels::DType dtype, int64_t bytes) {
  const int64_t block = SumProbe::kNumbers * kernels::DTypeBytes(dtype);
  for (int64_t first = 0; first < bytes; first += block) {
    RETURN_IF_ERROR(
        CudaStatus(cudaMemcpyAsync(static_cast<char*>(warm_up) + first, probe->Numbers(dtype),
                                   static_cast<size_t>(std::min(block, bytes - first)),
                                   cudaMemcpyHostToDevice, stream),
                   "cudaMemcpyAsync"));
  }
  return absl::OkStatus();
}

// Waits for the call before it copies: a copy to pageable memory would wait without end.
absl::Status Collectives::Impl::TakeResult(const void* result, int64_t bytes) {
  RETURN_IF_ERROR(group->Wait(stream));
  RETURN_IF_ERROR(CudaStatus(cudaMemcpyAsync(probed.data(), result, static_cast<size_t>(bytes),
                                             cudaMemcpyDeviceToHost, stream),
                             "cudaMemcpyAsync"));
  RETURN_IF_ERROR(group->Wait(stream));
  probe->Take(probed.data(), bytes);
  return absl::OkStatus();
}

// How ranks lie on hosts, and the bits of the sums that all of them saw. Settings are read
// again: NCCL has put those of its configuration files into the environment by now.
absl::Status Collectives::Impl::CompareNotes() {
  const std::string host = ToHex(Sha256(NcclHost()));
  ASSIGN_OR_RETURN(const std::vector<std::string> notes, Exchange(host + probe->Digest()));
  std::vector<std::string> hosts;
  std::string digests;
  for (const std::string& note : notes) {
    hosts.push_back(note.substr(0, host.size()));
    digests += note.substr(host.size());
  }
  nccl_sums = absl::StrCat("hosts=", GroupsOf(hosts), NcclSettings(),
                           " sums=", ToHex(Sha256(digests)).substr(0, 16));
  return absl::OkStatus();
}

}  // namespace coxswain::comm
