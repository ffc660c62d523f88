#include "controller/cli/connect/client.h"

#include <grpcpp/grpcpp.h>

#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/access/call_credentials.h"
#include "common/net/grpc_endpoint.h"
#include "common/net/grpc_status.h"
#include "common/status_macros.h"
#include "controller/cli/connect/cannot_reach.h"
#include "controller/cli/connect/connection.h"
#include "controller/cli/machine/interrupt.h"
#include "coxswain/v1/jobs_service.grpc.pb.h"

namespace coxswain::cli {
namespace {

constexpr Client::Timeout kStreamTimeout{std::chrono::hours(24)};

absl::StatusOr<std::unique_ptr<v1::Jobs::Stub>> MakeStub(
    const absl::StatusOr<Connection>& connection) {
  RETURN_IF_ERROR(connection.status());
  ASSIGN_OR_RETURN(const SocketAddress peer, ParseSocketAddress(connection->server));
  ASSIGN_OR_RETURN(const auto credentials,
                   ChannelCredentials(peer, connection->tls, connection->insecure));
  return v1::Jobs::NewStub(NewChannel(peer.text(), credentials));
}

void SetDeadline(grpc::ClientContext* context, Client::Timeout timeout) {
  context->set_deadline(std::chrono::system_clock::now() + timeout);
}

// `token`: what was presented, or why nothing was.
absl::Status ToStatus(const grpc::Status& grpc_status, const Connection& connection,
                      const absl::Status& token) {
  const absl::Status status = FromGrpc(grpc_status);
  const std::string& address = connection.server;
  // A certificate says who calls: the refusal is of its role.
  const bool nobody = absl::IsPermissionDenied(status) && connection.tls.cert.empty();
  if ((absl::IsUnauthenticated(status) || nobody) && !token.ok()) {
    return absl::Status(
        status.code(),
        absl::StrCat(
            "the controller at ", address,
            " does not know who calls: ", std::string(token.message()),
            ". Ask its operator for a token (cox token create), and give it by --token-file"));
  }
  if (absl::IsUnavailable(status)) {
    return absl::UnavailableError(CannotReach(connection, std::string(status.message())));
  }
  if (absl::IsDeadlineExceeded(status)) {
    return absl::DeadlineExceededError(
        absl::StrCat("the controller at ", address, " did not answer in time"));
  }
  return status;
}

}  // namespace

struct Client::Impl {
  explicit Impl(const absl::StatusOr<Connection>& connection)
      : connection(connection.ok() ? *connection : Connection()), stub(MakeStub(connection)) {}

  // One try of a call: `invoke` makes it with what proves who calls. Nothing: the token that was
  // refused is not what a controller that was started meanwhile has left, try again.
  template <typename Invoke>
  std::optional<absl::Status> Try(Timeout timeout, const Invoke& invoke) const {
    grpc::ClientContext context;
    const absl::StatusOr<std::string> token = FindToken(connection);
    if (!token.ok() && !connection.token_file.empty()) return token.status();
    if (token.ok()) access::SignWithToken(*token, &context);
    SetDeadline(&context, timeout);
    const OnInterrupt cancel([&context] { context.TryCancel(); });
    const grpc::Status status = invoke(&context);
    const bool unknown = status.error_code() == grpc::StatusCode::UNAUTHENTICATED ||
                         status.error_code() == grpc::StatusCode::PERMISSION_DENIED;
    if (unknown) {
      const absl::StatusOr<std::string> now = FindToken(connection);
      if (now.ok() && now.value() != token.value_or("")) return std::nullopt;
    }
    return ToStatus(status, connection, token.status());
  }
  template <typename Invoke>
  absl::Status Tried(Timeout timeout, const Invoke& invoke) const {
    for (;;) {
      if (std::optional<absl::Status> status = Try(timeout, invoke)) return *status;
    }
  }

  template <typename Request, typename Response>
  absl::StatusOr<Response> Call(grpc::Status (v1::Jobs::Stub::*method)(grpc::ClientContext*,
                                                                       const Request&, Response*),
                                const Request& request, Timeout timeout) {
    RETURN_IF_ERROR(stub.status());
    Response response;
    RETURN_IF_ERROR(Tried(timeout, [&](grpc::ClientContext* context) {
      return ((**stub).*method)(context, request, &response);
    }));
    return response;
  }

  template <typename Request, typename Response>
  absl::Status Stream(std::unique_ptr<grpc::ClientReader<Response>> (v1::Jobs::Stub::*method)(
                          grpc::ClientContext*, const Request&),
                      const Request& request, const Take<Response>& take,
                      const std::stop_token& stop = {}) {
    RETURN_IF_ERROR(stub.status());
    return Tried(kStreamTimeout, [&](grpc::ClientContext* context) {
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

  const Connection connection;
  absl::StatusOr<std::unique_ptr<v1::Jobs::Stub>> stub;
};

Client::Client(const absl::StatusOr<Connection>& connection)
    : address_(connection.ok() ? connection->server : ""),
      impl_(std::make_unique<Impl>(connection)) {}
Client::~Client() = default;

absl::Status Client::usable() const { return impl_->stub.status(); }

bool Client::IsLoopback() const {
  const absl::StatusOr<SocketAddress> peer = ParseSocketAddress(address_);
  return peer.ok() && coxswain::IsLoopback(peer->host);
}

absl::StatusOr<v1::Job> Client::Submit(const v1::SubmitRequest& request, Timeout patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  for (;;) {
    auto job = impl_->Call(&v1::Jobs::Stub::Submit, request, kCallTimeout);
    const bool again =
        absl::IsUnavailable(job.status()) && std::chrono::steady_clock::now() < deadline;
    if (!again || WaitForInterrupt(200)) return job;
  }
}

absl::StatusOr<v1::Job> Client::Get(const std::string& job, Timeout timeout) {
  v1::GetRequest request;
  request.set_job(job);
  return impl_->Call(&v1::Jobs::Stub::Get, request, timeout);
}

absl::StatusOr<v1::ListResponse> Client::List(const v1::ListRequest& request) {
  return impl_->Call(&v1::Jobs::Stub::List, request, kCallTimeout);
}

absl::StatusOr<v1::Job> Client::Cancel(const std::string& job, bool with_checkpoint) {
  v1::CancelRequest request;
  request.set_job(job);
  request.set_checkpoint(with_checkpoint);
  return impl_->Call(&v1::Jobs::Stub::Cancel, request, kCallTimeout);
}

absl::StatusOr<v1::Job> Client::Pause(const std::string& job) {
  v1::PauseRequest request;
  request.set_job(job);
  return impl_->Call(&v1::Jobs::Stub::Pause, request, kCallTimeout);
}

absl::StatusOr<v1::Job> Client::Resume(const std::string& job, int64_t steps) {
  v1::ResumeRequest request;
  request.set_job(job);
  request.set_steps(steps);
  return impl_->Call(&v1::Jobs::Stub::Resume, request, kCallTimeout);
}

absl::StatusOr<v1::ListWorkersResponse> Client::ListWorkers(Timeout timeout) {
  return impl_->Call(&v1::Jobs::Stub::ListWorkers, v1::ListWorkersRequest(), timeout);
}

absl::StatusOr<v1::CordonResponse> Client::Cordon(const std::string& target,
                                                  const std::string& reason) {
  v1::CordonRequest request;
  request.set_target(target);
  request.set_reason(reason);
  return impl_->Call(&v1::Jobs::Stub::Cordon, request, kCallTimeout);
}

absl::StatusOr<v1::UncordonResponse> Client::Uncordon(const std::string& target) {
  v1::UncordonRequest request;
  request.set_target(target);
  return impl_->Call(&v1::Jobs::Stub::Uncordon, request, kCallTimeout);
}

absl::StatusOr<v1::ExplainResponse> Client::Explain(const std::string& job) {
  v1::ExplainRequest request;
  request.set_job(job);
  return impl_->Call(&v1::Jobs::Stub::Explain, request, kCallTimeout);
}

absl::StatusOr<v1::ListArtifactsResponse> Client::ListArtifacts(const std::string& job) {
  v1::ListArtifactsRequest request;
  request.set_job(job);
  return impl_->Call(&v1::Jobs::Stub::ListArtifacts, request, kCallTimeout);
}

absl::StatusOr<v1::BeginUploadResponse> Client::BeginUpload(const v1::BeginUploadRequest& file) {
  return impl_->Call(&v1::Jobs::Stub::BeginUpload, file, kCallTimeout);
}

absl::StatusOr<v1::UploadResponse> Client::Upload(
    const v1::BeginUploadRequest& file, int64_t offset,
    const std::function<absl::StatusOr<std::string>(int64_t offset)>& read) {
  RETURN_IF_ERROR(impl_->stub.status());
  v1::UploadResponse response;
  absl::Status unread;
  RETURN_IF_ERROR(impl_->Tried(kStreamTimeout, [&](grpc::ClientContext* context) {
    const auto writer = (**impl_->stub).Upload(context, &response);
    v1::UploadRequest message;
    *message.mutable_file() = file;
    for (int64_t at = offset; at < file.bytes();) {
      absl::StatusOr<std::string> bytes = read(at);
      unread = bytes.status();
      if (!unread.ok()) {
        context->TryCancel();
        break;
      }
      message.set_offset(at);
      at += static_cast<int64_t>(bytes->size());
      message.set_data(*std::move(bytes));
      if (!writer->Write(message)) break;  // Finish says why
      message.clear_file();
    }
    writer->WritesDone();
    const grpc::Status status = writer->Finish();
    return unread.ok() ? status : grpc::Status::OK;
  }));
  RETURN_IF_ERROR(unread);
  return response;
}

absl::StatusOr<v1::DumpResponse> Client::Dump(const std::string& job, bool stop) {
  v1::DumpRequest request;
  request.set_job(job);
  request.set_stop(stop);
  return impl_->Call(&v1::Jobs::Stub::Dump, request, kCallTimeout);
}

absl::Status Client::Delete(const std::string& job) {
  v1::DeleteRequest request;
  request.set_job(job);
  return impl_->Call(&v1::Jobs::Stub::Delete, request, kCallTimeout).status();
}

absl::StatusOr<v1::CreateTokenResponse> Client::CreateToken(const std::string& user,
                                                            const std::string& role,
                                                            int64_t lifetime_ms) {
  v1::CreateTokenRequest request;
  request.set_user(user);
  request.set_role(role);
  request.set_lifetime_ms(lifetime_ms);
  return impl_->Call(&v1::Jobs::Stub::CreateToken, request, kCallTimeout);
}

absl::StatusOr<v1::ListTokensResponse> Client::ListTokens() {
  return impl_->Call(&v1::Jobs::Stub::ListTokens, v1::ListTokensRequest(), kCallTimeout);
}

absl::StatusOr<v1::RevokeTokenResponse> Client::RevokeToken(const std::string& id) {
  v1::RevokeTokenRequest request;
  request.set_id(id);
  return impl_->Call(&v1::Jobs::Stub::RevokeToken, request, kCallTimeout);
}

absl::StatusOr<v1::BuildInfo> Client::Version(Timeout timeout) {
  return impl_->Call(&v1::Jobs::Stub::Version, v1::VersionRequest(), timeout);
}

absl::Status Client::Watch(const v1::WatchRequest& request, const Take<v1::JobEvent>& take,
                           const std::stop_token& stop) {
  return impl_->Stream(&v1::Jobs::Stub::Watch, request, take, stop);
}

absl::Status Client::Logs(const v1::LogsRequest& request, const Take<v1::LogLine>& take) {
  return impl_->Stream(&v1::Jobs::Stub::Logs, request, take);
}

absl::Status Client::Inspect(const v1::InspectRequest& request,
                             const Take<v1::InspectResponse>& take) {
  return impl_->Stream(&v1::Jobs::Stub::Inspect, request, take);
}

absl::Status Client::Fetch(const v1::FetchRequest& request, const Take<v1::FetchResponse>& take) {
  return impl_->Stream(&v1::Jobs::Stub::Fetch, request, take);
}

}  // namespace coxswain::cli
