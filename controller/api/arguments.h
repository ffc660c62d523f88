// Whether a request is one that its operation was written for: what admission.h and
// registration.cc ask before anything else happens.
#ifndef COXSWAIN_CONTROLLER_API_ARGUMENTS_H_
#define COXSWAIN_CONTROLLER_API_ARGUMENTS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "coxswain/v1/jobs_service.pb.h"
#include "coxswain/v1/registry_service.pb.h"

namespace coxswain::api {

inline constexpr int64_t kMostListed = 1000;                   // jobs of one page of List
inline constexpr int64_t kMostUploadPiece = int64_t{1} << 20;  // bytes of one message of Upload

// InvalidArgument naming the field, its value and what is allowed. Numbers that count or index are
// in a range in which sums of them do not overflow; texts are bounded and hold no control
// characters. A request without a function here does not compile into the service. What depends on
// the job (a rank of it, its state) is its operation's to check.
absl::Status CheckArguments(const v1::SubmitRequest& request);
absl::Status CheckArguments(const v1::ValidateRequest& request);
absl::Status CheckArguments(const v1::PlanRequest& request);
absl::Status CheckArguments(const v1::GetRequest& request);
absl::Status CheckArguments(const v1::ListRequest& request);
absl::Status CheckArguments(const v1::WatchRequest& request);
absl::Status CheckArguments(const v1::LogsRequest& request);
absl::Status CheckArguments(const v1::CancelRequest& request);
absl::Status CheckArguments(const v1::PauseRequest& request);
absl::Status CheckArguments(const v1::ResumeRequest& request);
absl::Status CheckArguments(const v1::ListWorkersRequest& request);
absl::Status CheckArguments(const v1::CordonRequest& request);
absl::Status CheckArguments(const v1::UncordonRequest& request);
absl::Status CheckArguments(const v1::InspectRequest& request);
absl::Status CheckArguments(const v1::ExplainRequest& request);
absl::Status CheckArguments(const v1::ListArtifactsRequest& request);
absl::Status CheckArguments(const v1::FetchRequest& request);
absl::Status CheckArguments(const v1::BeginUploadRequest& request);
absl::Status CheckArguments(const v1::UploadRequest& request);
absl::Status CheckArguments(const v1::DumpRequest& request);
absl::Status CheckArguments(const v1::DeleteRequest& request);
absl::Status CheckArguments(const v1::VersionRequest& request);
absl::Status CheckArguments(const v1::CreateTokenRequest& request);
absl::Status CheckArguments(const v1::ListTokensRequest& request);
absl::Status CheckArguments(const v1::RevokeTokenRequest& request);
absl::Status CheckArguments(const v1::RegisterRequest& request);
absl::Status CheckArguments(const v1::HeartbeatRequest& request);

}  // namespace coxswain::api

#endif  // COXSWAIN_CONTROLLER_API_ARGUMENTS_H_
