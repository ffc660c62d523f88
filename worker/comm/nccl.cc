// Collectives over NCCL. What communicators are and how they end stands in nccl_group.cc.
#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/hash.h"
#include "common/status_macros.h"
#include "kernels/add.h"
#include "kernels/cuda/stream.h"
#include "worker/comm/collectives.h"
#include "worker/comm/cuda_calls.h"
#include "worker/comm/host_identity.h"
#include "worker/comm/members.h"
#include "worker/comm/nccl_group.h"
#include "worker/comm/peer_copies.h"
#include "worker/comm/sum_probe.h"

namespace coxswain::comm {
namespace {

// The warm-up calls: NCCL connects for an algorithm at its first use, and its choice depends on the
// size.
constexpr int64_t kWarmUpBytes[] = {int64_t{4} << 10, int64_t{1} << 20, int64_t{32} << 20};

// Of NCCL, by which it chooses how to add up.
constexpr const char* kSettings[] = {"NCCL_ALGO",          "NCCL_PROTO",    "NCCL_MIN_NCHANNELS",
                                     "NCCL_MAX_NCHANNELS", "NCCL_MIN_CTAS", "NCCL_MAX_CTAS",
                                     "NCCL_NVLS_ENABLE",   "NCCL_NTHREADS"};

// What is set of it, "" when nothing is.
std::string Settings() {
  std::string text;
  for (const char* name : kSettings) {
    const char* value = std::getenv(name);
    if (value != nullptr) absl::StrAppend(&text, " ", name, "=", value);
  }
  return text;
}

ncclDataType_t TypeOf(kernels::DType dtype) {
  return dtype == kernels::DType::kFloat32 ? ncclFloat32 : ncclBfloat16;
}

const char* TypeName(kernels::DType dtype) {
  return dtype == kernels::DType::kFloat32 ? "float32" : "bfloat16";
}

ncclResult_t ResultOf(cudaError_t result) {
  return result == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

}  // namespace

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

  absl::Status OpenHostCalls();
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

absl::Status Collectives::Impl::OpenHostCalls() {
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
  const std::string operation = OperationName("reduce_scatter", call.n, TypeName(call.dtype), comm);
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
                                       TypeOf(call.dtype), ncclSum, nccl, on);
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
      RETURN_IF_ERROR(Sum(comm, data, bytes / element, TypeOf(dtype), TypeName(dtype), stream));
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
  nccl_sums = absl::StrCat("hosts=", GroupsOf(hosts), Settings(),
                           " sums=", ToHex(Sha256(digests)).substr(0, 16));
  return absl::OkStatus();
}

// As the process was started: forming a group adds what NCCL's configuration files say, and ranks
// of one gang may have formed others before or not.
std::string Collectives::Fingerprint() {
  static const std::string settings = Settings();
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
  RETURN_IF_ERROR(impl.OpenHostCalls());
  for (Communicator comm : kCommunicators) RETURN_IF_ERROR(impl.Verify(comm));
  RETURN_IF_ERROR(impl.WarmUp());
  return group;
}

absl::Status Collectives::AllReduceSum(Communicator comm, void* data, int64_t n,
                                       kernels::DType dtype, kernels::Stream* stream) {
  return impl_->Sum(comm, data, n, TypeOf(dtype), TypeName(dtype), kernels::cuda::Handle(stream));
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
