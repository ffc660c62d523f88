#include "worker/comm/peer_memory.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include <cuda_runtime_api.h>

#include "absl/strings/str_cat.h"
#include "common/files/hash.h"
#include "common/status_macros.h"

namespace coxswain::comm {
namespace {

constexpr size_t kMessageBytes = 256;

// Starts a rank's record; a handle and a size of each region follow.
struct Header {
  char host[72] = {};  // of the rank, also in a container
  char problem[kMessageBytes] = {};
};
struct Entry {
  cudaIpcMemHandle_t handle;
  int64_t bytes;
};

void Copy(const std::string& text, char* out, size_t room) {
  std::memcpy(out, text.data(), std::min(text.size(), room - 1));
}

absl::Status CudaStatus(cudaError_t result, const char* call) {
  if (result == cudaSuccess) return absl::OkStatus();
  (void)cudaGetLastError();  // what cannot be shared is no error of the device
  return absl::FailedPreconditionError(absl::StrCat(call, ": ", cudaGetErrorString(result)));
}

Header HeaderOf(const std::string& record) {
  Header header;
  std::memcpy(&header, record.data(), sizeof(header));
  return header;
}

Entry EntryOf(const std::string& record, size_t region) {
  Entry entry;
  std::memcpy(&entry, record.data() + sizeof(Header) + region * sizeof(Entry), sizeof(entry));
  return entry;
}

// Whether all ranks could; the first that could not says why.
absl::Status Agree(const absl::Status& mine, const PeerMemory::Exchange& exchange) {
  std::string problem(kMessageBytes, '\0');
  if (!mine.ok()) Copy(std::string(mine.message()), problem.data(), problem.size());
  ASSIGN_OR_RETURN(const std::vector<std::string> all, exchange(problem));
  for (size_t r = 0; r < all.size(); ++r) {
    if (all[r][0] == '\0') continue;
    return absl::FailedPreconditionError(absl::StrCat("rank ", r, ": ", all[r].c_str()));
  }
  return absl::OkStatus();
}

}  // namespace

// A rank that has no handles still takes part in the exchange. One that cannot tell its machine has
// it for itself.
absl::StatusOr<std::string> PeerMemory::Describe(const std::string& host_id) const {
  std::string record(sizeof(Header) + regions_.size() * sizeof(Entry), '\0');
  Header header;
  const std::string boot = BootId();
  const std::string host =
      absl::StrCat(boot.empty() ? absl::StrCat("rank ", rank_) : boot, " ", host_id);
  Copy(ToHex(Sha256(host)), header.host, sizeof(header.host));
  for (size_t i = 0; i < regions_.size(); ++i) {
    Entry entry{.handle = {}, .bytes = regions_[i].bytes};
    const absl::Status status =
        CudaStatus(cudaIpcGetMemHandle(&entry.handle, regions_[i].data), "cudaIpcGetMemHandle");
    if (!status.ok()) Copy(std::string(status.message()), header.problem, sizeof(header.problem));
    std::memcpy(record.data() + sizeof(Header) + i * sizeof(Entry), &entry, sizeof(entry));
  }
  std::memcpy(record.data(), &header, sizeof(header));
  return record;
}

absl::Status PeerMemory::OpenAll(const std::vector<std::string>& records) {
  for (const std::string& record : records) hosts_.emplace_back(HeaderOf(record).host);
  for (size_t r = 0; r < records.size(); ++r) {
    const Header header = HeaderOf(records[r]);
    if (header.problem[0] != '\0') return absl::FailedPreconditionError(header.problem);
    if (static_cast<int>(r) == rank_ || hosts_[r] != hosts_[static_cast<size_t>(rank_)]) continue;
    for (size_t i = 0; i < regions_.size(); ++i) {
      const Entry entry = EntryOf(records[r], i);
      if (entry.bytes != regions_[i].bytes) {
        return absl::FailedPreconditionError(absl::StrCat("region ", i, " has ", regions_[i].bytes,
                                                          " bytes here and ", entry.bytes,
                                                          " on rank ", r));
      }
      void* base = nullptr;
      RETURN_IF_ERROR(
          CudaStatus(cudaIpcOpenMemHandle(&base, entry.handle, cudaIpcMemLazyEnablePeerAccess),
                     "cudaIpcOpenMemHandle"));
      bases_[r].push_back(static_cast<char*>(base));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<PeerMemory>> PeerMemory::Open(
    int rank, const std::string& host_id, const std::vector<DeviceRegion>& regions,
    const Exchange& exchange) {
  std::unique_ptr<PeerMemory> memory(new PeerMemory(rank, regions));
  ASSIGN_OR_RETURN(const std::string mine, memory->Describe(host_id));
  ASSIGN_OR_RETURN(const std::vector<std::string> records, exchange(mine));
  memory->bases_.resize(records.size());
  RETURN_IF_ERROR(Agree(memory->OpenAll(records), exchange));
  return memory;
}

PeerMemory::~PeerMemory() {
  for (const std::vector<char*>& regions : bases_) {
    for (char* base : regions) (void)cudaIpcCloseMemHandle(base);
  }
}

int PeerMemory::RegionOf(const void* data, int64_t bytes) const {
  const char* const first = static_cast<const char*>(data);
  for (size_t i = 0; i < regions_.size(); ++i) {
    const char* const base = static_cast<const char*>(regions_[i].data);
    if (first >= base && first + bytes <= base + regions_[i].bytes) return static_cast<int>(i);
  }
  return -1;
}

char* PeerMemory::Of(int rank, const void* data) const {
  const auto region = static_cast<size_t>(RegionOf(data, 1));
  const auto offset =
      static_cast<const char*>(data) - static_cast<const char*>(regions_[region].data);
  return bases_[static_cast<size_t>(rank)][region] + offset;
}

std::string BootId() {
  std::string id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> id;
  return id;
}

std::string NcclHost() {
  if (const char* id = std::getenv("NCCL_HOSTID"); id != nullptr && *id != '\0') return id;
  char name[256] = {};
  (void)gethostname(name, sizeof(name) - 1);
  return std::string(name) + " " + BootId();
}

}  // namespace coxswain::comm
