#include "controller/cli/client.h"

#include <grpcpp/grpcpp.h>

#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/access/call_credentials.h"
#include "common/grpc_status.h"
#include "common/net/grpc_endpoint.h"
#include "common/status_macros.h"
#include "controller/cli/client_token.h"
#include "controller/cli/interrupt.h"
#include "coxswain/v1/jobs_service.grpc.pb.h"

namespace coxswain::cli {
namespace {

constexpr Client::Timeout kStreamTimeout{std::chrono::hours(24)};

absl::StatusOr<std::unique_ptr<v1::Jobs::Stub>> MakeStub(const std::string& address,
                                                         const TlsFiles& tls, bool insecure) {
  ASSIGN_OR_RETURN(const SocketAddress peer, ParseSocketAddress(address));
  ASSIGN_OR_RETURN(const auto credentials, ChannelCredentials(peer, tls, insecure));
  return v1::Jobs::NewStub(NewChannel(peer.text(), credentials));
}

void SetDeadline(grpc::ClientContext* context, Client::Timeout timeout) {
  context->set_deadline(std::chrono::system_clock::now() + timeout);
}

// `token`: what was presented, or why nothing was.
absl::Status ToStatus(const grpc::Status& grpc_status, const std::string& address,
                      const absl::Status& token) {
  const absl::Status status = FromGrpc(grpc_status);
  const bool unknown = absl::IsUnauthenticated(status) || absl::IsPermissionDenied(status);
  if (unknown && !token.ok()) {
    return absl::Status(
        status.code(),
        absl::StrCat(
            "the controller at ", address,
            " does not know who calls: ", std::string(token.message()),
            ". Ask its operator for a token (cox token create), and give it by --token-file"));
  }
  if (absl::IsUnavailable(status)) {
    return absl::UnavailableError(absl::StrCat(
        "cannot reach the controller at ", address, ": ", std::string(status.message()),
        ". Start one with `cox up`, or name another by --server or COXSWAIN_SERVER"));
  }
  if (absl::IsDeadlineExceeded(status)) {
    return absl::DeadlineExceededError(
        absl::StrCat("the controller at ", address, " did not answer in time"));
  }
  return status;
}

}  // namespace

struct Client::Impl {
  Impl(const std::string& address, const TlsFiles& tls, bool insecure, std::string token_file)
      : token_file(std::move(token_file)), stub(MakeStub(address, tls, insecure)) {}

  // One try of a call: `invoke` makes it with what proves who calls. Nothing: the token that was
  // refused is not what a controller that was started meanwhile has left, try again.
  template <typename Invoke>
  std::optional<absl::Status> Try(const std::string& address, Timeout timeout,
                                  const Invoke& invoke) const {
    grpc::ClientContext context;
    const absl::StatusOr<std::string> token = FindToken(token_file, address);
    if (!token.ok() && !token_file.empty()) return token.status();
    if (token.ok()) access::SignWithToken(*token, &context);
    SetDeadline(&context, timeout);
    const OnInterrupt cancel([&context] { context.TryCancel(); });
    const grpc::Status status = invoke(&context);
    const bool unknown = status.error_code() == grpc::StatusCode::UNAUTHENTICATED ||
                         status.error_code() == grpc::StatusCode::PERMISSION_DENIED;
    if (unknown) {
      const absl::StatusOr<std::string> now = FindToken(token_file, address);
      if (now.ok() && now.value() != token.value_or("")) return std::nullopt;
    }
    return ToStatus(status, address, token.status());
  }
  template <typename Invoke>
  absl::Status Tried(const std::string& address, Timeout timeout, const Invoke& invoke) const {
    for (;;) {
      if (std::optional<absl::Status> status = Try(address, timeout, invoke)) return *status;
    }
  }

  template <typename Request, typename Response>
  absl::StatusOr<Response> Call(grpc::Status (v1::Jobs::Stub::*method)(grpc::ClientContext*,
                                                                       const Request&, Response*),
                                const Request& request, Timeout timeout,
                                const std::string& address) {
    RETURN_IF_ERROR(stub.status());
    Response response;
    RETURN_IF_ERROR(Tried(address, timeout, [&](grpc::ClientContext* context) {
      return ((**stub).*method)(context, request, &response);
    }));
    return response;
  }

  template <typename Request, typename Response>
  absl::Status Stream(std::unique_ptr<grpc::ClientReader<Response>> (v1::Jobs::Stub::*method)(
                          grpc::ClientContext*, const Request&),
                      const Request& request, const Take<Response>& take,
                      const std::string& address, const std::stop_token& stop = {}) {
    RETURN_IF_ERROR(stub.status());
    return Tried(address, kStreamTimeout, [&](grpc::ClientContext* context) {
      const std::stop_callback stopped(stop, [context] { context->TryCancel(); });
      auto reader = ((**stub).*method)(context, request);
      Response response;
      while (reader->Read(&response)) {
        if (take(response)) continue;
        context->TryCancel();
        while (reader->Read(&response)) {
        }
        reader->Finish();
        return grpc::Status::OK;
      }
      return reader->Finish();
    });
  }

  const std::string token_file;
  absl::StatusOr<std::unique_ptr<v1::Jobs::Stub>> stub;
};

Client::Client(const std::string& address, const TlsFiles& tls, bool insecure,
               std::string token_file)
    : address_(address),
      impl_(std::make_unique<Impl>(address, tls, insecure, std::move(token_file))) {}
Client::~Client() = default;

bool Client::IsLoopback() const {
  const absl::StatusOr<SocketAddress> peer = ParseSocketAddress(address_);
  return peer.ok() && coxswain::IsLoopback(peer->host);
}

absl::StatusOr<v1::Job> Client::Submit(const v1::SubmitRequest& request, Timeout patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  for (;;) {
    auto job = impl_->Call(&v1::Jobs::Stub::Submit, request, kCallTimeout, address_);
    const bool again =
        absl::IsUnavailable(job.status()) && std::chrono::steady_clock::now() < deadline;
    if (!again || WaitForInterrupt(200)) return job;
  }
}

absl::StatusOr<v1::Job> Client::Get(const std::string& job, Timeout timeout) {
  v1::GetRequest request;
  request.set_job(job);
  return impl_->Call(&v1::Jobs::Stub::Get, request, timeout, address_);
}

absl::StatusOr<v1::ListResponse> Client::List(const v1::ListRequest& request) {
  return impl_->Call(&v1::Jobs::Stub::List, request, kCallTimeout, address_);
}

absl::StatusOr<v1::Job> Client::Cancel(const std::string& job, bool with_checkpoint) {
  v1::CancelRequest request;
  request.set_job(job);
  request.set_checkpoint(with_checkpoint);
  return impl_->Call(&v1::Jobs::Stub::Cancel, request, kCallTimeout, address_);
}

absl::StatusOr<v1::Job> Client::Pause(const std::string& job) {
  v1::PauseRequest request;
  request.set_job(job);
  return impl_->Call(&v1::Jobs::Stub::Pause, request, kCallTimeout, address_);
}

absl::StatusOr<v1::Job> Client::Resume(const std::string& job, int64_t steps) {
  v1::ResumeRequest request;
  request.set_job(job);
  request.set_steps(steps);
  return impl_->Call(&v1::Jobs::Stub::Resume, request, kCallTimeout, address_);
}

absl::StatusOr<v1::ListWorkersResponse> Client::ListWorkers(Timeout timeout) {
  return impl_->Call(&v1::Jobs::Stub::ListWorkers, v1::ListWorkersRequest(), timeout, address_);
}

absl::StatusOr<v1::CordonResponse> Client::Cordon(const std::string& target,
                                                  const std::string& reason) {
  v1::CordonRequest request;
  request.set_target(target);
  request.set_reason(reason);
  return impl_->Call(&v1::Jobs::Stub::Cordon, request, kCallTimeout, address_);
}

absl::StatusOr<v1::UncordonResponse> Client::Uncordon(const std::string& target) {
  v1::UncordonRequest request;
  request.set_target(target);
  return impl_->Call(&v1::Jobs::Stub::Uncordon, request, kCallTimeout, address_);
}

absl::StatusOr<v1::ExplainResponse> Client::Explain(const std::string& job) {
  v1::ExplainRequest request;
  request.set_job(job);
  return impl_->Call(&v1::Jobs::Stub::Explain, request, kCallTimeout, address_);
}

absl::StatusOr<v1::ListArtifactsResponse> Client::ListArtifacts(const std::string& job) {
  v1::ListArtifactsRequest request;
  request.set_job(job);
  return impl_->Call(&v1::Jobs::Stub::ListArtifacts, request, kCallTimeout, address_);
}

absl::StatusOr<v1::DumpResponse> Client::Dump(const std::string& job, bool stop) {
  v1::DumpRequest request;
  request.set_job(job);
  request.set_stop(stop);
  return impl_->Call(&v1::Jobs::Stub::Dump, request, kCallTimeout, address_);
}

absl::Status Client::Delete(const std::string& job) {
  v1::DeleteRequest request;
  request.set_job(job);
  return impl_->Call(&v1::Jobs::Stub::Delete, request, kCallTimeout, address_).status();
}

absl::StatusOr<v1::CreateTokenResponse> Client::CreateToken(const std::string& user,
                                                            const std::string& role,
                                                            int64_t lifetime_ms) {
  v1::CreateTokenRequest request;
  request.set_user(user);
  request.set_role(role);
  request.set_lifetime_ms(lifetime_ms);
  return impl_->Call(&v1::Jobs::Stub::CreateToken, request, kCallTimeout, address_);
}

absl::StatusOr<v1::ListTokensResponse> Client::ListTokens() {
  return impl_->Call(&v1::Jobs::Stub::ListTokens, v1::ListTokensRequest(), kCallTimeout, address_);
}

absl::StatusOr<v1::RevokeTokenResponse> Client::RevokeToken(const std::string& id) {
  v1::RevokeTokenRequest request;
  request.set_id(id);
  return impl_->Call(&v1::Jobs::Stub::RevokeToken, request, kCallTimeout, address_);
}

absl::StatusOr<v1::BuildInfo> Client::Version(Timeout timeout) {
  return impl_->Call(&v1::Jobs::Stub::Version, v1::VersionRequest(), timeout, address_);
}

absl::Status Client::Watch(const v1::WatchRequest& request, const Take<v1::JobEvent>& take,
                           const std::stop_token& stop) {
  return impl_->Stream(&v1::Jobs::Stub::Watch, request, take, address_, stop);
}

absl::Status Client::Logs(const v1::LogsRequest& request, const Take<v1::LogLine>& take) {
  return impl_->Stream(&v1::Jobs::Stub::Logs, request, take, address_);
}

absl::Status Client::Inspect(const v1::InspectRequest& request,
                             const Take<v1::InspectResponse>& take) {
  return impl_->Stream(&v1::Jobs::Stub::Inspect, request, take, address_);
}

absl::Status Client::Fetch(const v1::FetchRequest& request, const Take<v1::FetchResponse>& take) {
  return impl_->Stream(&v1::Jobs::Stub::Fetch, request, take, address_);
}

}  // namespace coxswain::cli
