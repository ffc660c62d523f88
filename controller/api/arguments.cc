#include "controller/api/arguments.h"

#include <cstdint>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/access/principal.h"
#include "common/net/socket_address.h"
#include "common/outside_text.h"
#include "common/status_macros.h"
#include "controller/uploads/upload_path.h"

namespace coxswain::api {
namespace {

constexpr int64_t kMostSteps = int64_t{1} << 53;
constexpr int64_t kLongestIntervalMs = 24 * 3600 * 1000;
constexpr int64_t kLongestLifetimeMs = int64_t{100} * 366 * 24 * 3600 * 1000;
constexpr int64_t kMostMs = int64_t{1} << 53;
constexpr size_t kMostPathBytes = 4096;
constexpr int kMostLabels = 64;
constexpr int64_t kMostOfAHost = 65535;  // slots, GPUs, NUMA nodes, threads
constexpr uint64_t kMostMemoryBytes = uint64_t{1} << 60;
constexpr size_t kMostHashBytes = 64;
constexpr double kMostRate = 1e20;  // of operations or bytes per second
constexpr int64_t kDigestBytes = 32;
constexpr int64_t kMostUploadBytes = int64_t{1} << 50;

absl::Status InRange(const char* field, int64_t value, int64_t least, int64_t most) {
  if (value >= least && value <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, " is ", value, ", allowed: ", least, " to ", most));
}

// `text` as CleanText would leave it, on one line.
absl::Status ShortText(const char* field, const std::string& text, size_t most) {
  if (text.size() > most) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, " has ", text.size(), " bytes, allowed: ", most));
  }
  const std::string clean = CleanText(text, 4 * most + 64);
  if (clean == text && text.find_first_of("\n\t") == std::string::npos) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, " is '", clean, "': control characters are not allowed"));
}

absl::Status Needed(const char* field, const std::string& text, size_t most) {
  if (text.empty()) return absl::InvalidArgumentError(absl::StrCat(field, " is empty"));
  return ShortText(field, text, most);
}

absl::Status JobReference(const std::string& job) {
  if (job.empty()) return absl::InvalidArgumentError("job is empty: a name or id is needed");
  return ShortText("job", job, kMostNameBytes);
}

template <typename Request>
absl::Status JobFile(const Request& request) {
  return ShortText("yaml_path", request.yaml_path(), kMostPathBytes);
}

absl::Status CheckFence(const v1::Fence& fence) {
  RETURN_IF_ERROR(ShortText("current.job", fence.job(), kMostNameBytes));
  RETURN_IF_ERROR(
      ShortText("current.worker_incarnation", fence.worker_incarnation(), kMostNameBytes));
  RETURN_IF_ERROR(ShortText("current.store", fence.store(), kMostNameBytes));
  return InRange("size of current.plan_hash", static_cast<int64_t>(fence.plan_hash().size()), 0,
                 kMostHashBytes);
}

absl::Status CheckMemoryBytes(uint64_t bytes) {
  if (bytes <= kMostMemoryBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("memory_bytes is ", bytes, ", allowed: 0 to ", kMostMemoryBytes));
}

// Of a device. Not a number is no rate either.
absl::Status CheckRate(const char* name, double per_second) {
  if (per_second >= 0 && per_second <= kMostRate) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, " is ", per_second, ", allowed: 0 to ", kMostRate));
}

absl::Status CheckBuildInfo(const v1::BuildInfo& build) {
  RETURN_IF_ERROR(ShortText("build.version", build.version(), kMostNameBytes));
  RETURN_IF_ERROR(ShortText("build.commit", build.commit(), kMostNameBytes));
  if (build.device() == "cpu" || build.device() == "cuda") return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "build.device is '", CleanText(build.device(), kMostNameBytes), "', allowed: cpu, cuda"));
}

absl::Status CheckAddresses(const v1::RegisterRequest& request) {
  RETURN_IF_ERROR(Needed("address", request.address(), kMostNameBytes));
  RETURN_IF_ERROR(ShortText("metrics_address", request.metrics_address(), kMostNameBytes));
  RETURN_IF_ERROR(ShortText("relay_address", request.relay_address(), kMostNameBytes));
  for (const std::string& address :
       {request.address(), request.metrics_address(), request.relay_address()}) {
    if (!address.empty()) RETURN_IF_ERROR(ParseSocketAddress(address).status());
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckArguments(const v1::SubmitRequest& request) {
  RETURN_IF_ERROR(ShortText("idempotency_key", request.idempotency_key(), kMostNameBytes));
  return JobFile(request);
}
absl::Status CheckArguments(const v1::ValidateRequest& request) { return JobFile(request); }
absl::Status CheckArguments(const v1::PlanRequest& request) { return JobFile(request); }
absl::Status CheckArguments(const v1::GetRequest& request) { return JobReference(request.job()); }

absl::Status CheckArguments(const v1::ListRequest& request) {
  RETURN_IF_ERROR(InRange("page_size", request.page_size(), 0, kMostListed));
  RETURN_IF_ERROR(ShortText("page_token", request.page_token(), kMostNameBytes));
  RETURN_IF_ERROR(InRange("number of labels", request.labels_size(), 0, kMostLabels));
  for (const std::string& label : request.labels()) {
    RETURN_IF_ERROR(ShortText("label", label, kMostPathBytes));
    const size_t equals = label.find('=');
    if (equals == std::string::npos || equals == 0) {
      return absl::InvalidArgumentError(absl::StrCat("label '", label, "' is not key=value"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckArguments(const v1::WatchRequest& request) {
  RETURN_IF_ERROR(JobReference(request.job()));
  return InRange("after_event_id", request.after_event_id(), 0,
                 std::numeric_limits<int64_t>::max());
}

absl::Status CheckArguments(const v1::LogsRequest& request) {
  RETURN_IF_ERROR(JobReference(request.job()));
  RETURN_IF_ERROR(InRange("rank", request.rank(), -1, std::numeric_limits<int32_t>::max()));
  return InRange("tail", request.tail(), 0, std::numeric_limits<int32_t>::max());
}

absl::Status CheckArguments(const v1::CancelRequest& request) {
  return JobReference(request.job());
}
absl::Status CheckArguments(const v1::PauseRequest& request) { return JobReference(request.job()); }

absl::Status CheckArguments(const v1::ResumeRequest& request) {
  RETURN_IF_ERROR(JobReference(request.job()));
  return InRange("steps", request.steps(), 0, kMostSteps);
}

absl::Status CheckArguments(const v1::ListWorkersRequest&) { return absl::OkStatus(); }

absl::Status CheckArguments(const v1::CordonRequest& request) {
  RETURN_IF_ERROR(Needed("target", request.target(), kMostNameBytes));
  return ShortText("reason", request.reason(), kMostNameBytes);
}
absl::Status CheckArguments(const v1::UncordonRequest& request) {
  return Needed("target", request.target(), kMostNameBytes);
}

absl::Status CheckArguments(const v1::InspectRequest& request) {
  RETURN_IF_ERROR(JobReference(request.job()));
  return InRange("interval_ms", request.interval_ms(), 0, kLongestIntervalMs);
}

absl::Status CheckArguments(const v1::ExplainRequest& request) {
  return JobReference(request.job());
}
absl::Status CheckArguments(const v1::ListArtifactsRequest& request) {
  return JobReference(request.job());
}

absl::Status CheckArguments(const v1::FetchRequest& request) {
  RETURN_IF_ERROR(JobReference(request.job()));
  return Needed("name", request.name(), kMostPathBytes);
}

absl::Status CheckArguments(const v1::BeginUploadRequest& request) {
  if (!uploads::IsUploadName(request.name())) {
    return absl::InvalidArgumentError(absl::StrCat(
        "name is '", CleanText(request.name(), kMostNameBytes), "', allowed: the name ",
        "of a file without folders, 1 to 255 bytes without control characters"));
  }
  RETURN_IF_ERROR(InRange("size of sha256", static_cast<int64_t>(request.sha256().size()),
                          kDigestBytes, kDigestBytes));
  return InRange("bytes", request.bytes(), 1, kMostUploadBytes);
}

absl::Status CheckArguments(const v1::UploadRequest& request) {
  if (request.has_file()) RETURN_IF_ERROR(CheckArguments(request.file()));
  RETURN_IF_ERROR(InRange("offset", request.offset(), 0, kMostUploadBytes));
  return InRange("size of data", static_cast<int64_t>(request.data().size()), 0, kMostUploadPiece);
}

absl::Status CheckArguments(const v1::DumpRequest& request) { return JobReference(request.job()); }
absl::Status CheckArguments(const v1::DeleteRequest& request) {
  return JobReference(request.job());
}
absl::Status CheckArguments(const v1::VersionRequest&) { return absl::OkStatus(); }

absl::Status CheckArguments(const v1::CreateTokenRequest& request) {
  RETURN_IF_ERROR(Needed("user", request.user(), kMostNameBytes));
  if (!access::IsName(request.user())) {
    return absl::InvalidArgumentError(absl::StrCat(
        "user is '", request.user(), "', allowed: 1 to 64 letters, digits, '.', '_', '@' and '-'"));
  }
  if (request.role() != "user" && request.role() != "operator") {
    return absl::InvalidArgumentError(absl::StrCat(
        "role is '", CleanText(request.role(), kMostNameBytes), "', allowed: user, operator"));
  }
  return InRange("lifetime_ms", request.lifetime_ms(), 0, kLongestLifetimeMs);
}
absl::Status CheckArguments(const v1::ListTokensRequest&) { return absl::OkStatus(); }
absl::Status CheckArguments(const v1::RevokeTokenRequest& request) {
  return Needed("id", request.id(), kMostNameBytes);
}

absl::Status CheckArguments(const v1::RegisterRequest& request) {
  RETURN_IF_ERROR(Needed("incarnation", request.incarnation(), kMostNameBytes));
  RETURN_IF_ERROR(Needed("host", request.host(), kMostNameBytes));
  RETURN_IF_ERROR(CheckAddresses(request));
  RETURN_IF_ERROR(InRange("size of device_name", static_cast<int64_t>(request.device_name().size()),
                          0, kMostNameBytes));
  RETURN_IF_ERROR(CheckBuildInfo(request.build()));
  RETURN_IF_ERROR(CheckFence(request.current()));
  RETURN_IF_ERROR(InRange("slot", request.slot(), 0, kMostOfAHost));
  RETURN_IF_ERROR(InRange("gpu", request.gpu(), 0, kMostOfAHost));
  RETURN_IF_ERROR(InRange("numa_node", request.numa_node(), 0, kMostOfAHost));
  RETURN_IF_ERROR(InRange("threads", request.threads(), 0, kMostOfAHost));
  RETURN_IF_ERROR(InRange("compute_capability", request.compute_capability(), 0, kMostOfAHost));
  RETURN_IF_ERROR(CheckRate("product_flops_per_second", request.product_flops_per_second()));
  RETURN_IF_ERROR(CheckRate("copy_bytes_per_second", request.copy_bytes_per_second()));
  RETURN_IF_ERROR(InRange("pid", request.pid(), 0, std::numeric_limits<int32_t>::max()));
  return CheckMemoryBytes(request.memory_bytes());
}

absl::Status CheckArguments(const v1::HeartbeatRequest& request) {
  RETURN_IF_ERROR(Needed("incarnation", request.incarnation(), kMostNameBytes));
  RETURN_IF_ERROR(CheckFence(request.current()));
  RETURN_IF_ERROR(CheckMemoryBytes(request.memory_bytes()));
  RETURN_IF_ERROR(InRange("collectives.in_it_ms", request.collectives().in_it_ms(), 0, kMostMs));
  return ShortText("collectives.operation", request.collectives().operation(), kMostNameBytes);
}

}  // namespace coxswain::api
