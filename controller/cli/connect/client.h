// The client of the Jobs service: statuses instead of gRPC types, a deadline on every call.
#ifndef COXSWAIN_CONTROLLER_CLI_CONNECT_CLIENT_H_
#define COXSWAIN_CONTROLLER_CLI_CONNECT_CLIENT_H_

#include <chrono>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "controller/cli/connect/connection.h"
#include "coxswain/v1/jobs_service.pb.h"

namespace coxswain::cli {

// Errors carry the server's code and message; Unavailable names the address and what to do.
// Safe to use from several threads.
class Client {
 public:
  using Timeout = std::chrono::milliseconds;
  static constexpr Timeout kCallTimeout{30000};

  // Connects on the first call. Plaintext is allowed to loopback only. Every call looks for the
  // token anew (connection.h) and presents it. A token_file that cannot be read fails the call.
  explicit Client(const absl::StatusOr<Connection>& connection);
  ~Client();

  // The error of every call when context, address or certificate are wrong; else OK.
  absl::Status usable() const;
  const std::string& address() const { return address_; }  // host:port
  // True when client and controller see the same files.
  bool IsLoopback() const;

  // Tries a refused connection again for up to `patience`. The idempotency key makes that safe.
  absl::StatusOr<v1::Job> Submit(const v1::SubmitRequest& request, Timeout patience);
  absl::StatusOr<v1::Job> Get(const std::string& job, Timeout timeout = kCallTimeout);
  absl::StatusOr<v1::ListResponse> List(const v1::ListRequest& request);
  absl::StatusOr<v1::Job> Cancel(const std::string& job, bool with_checkpoint = false);
  absl::StatusOr<v1::Job> Pause(const std::string& job);
  absl::StatusOr<v1::Job> Resume(const std::string& job, int64_t steps);
  absl::StatusOr<v1::ListWorkersResponse> ListWorkers(Timeout timeout = kCallTimeout);
  absl::StatusOr<v1::CordonResponse> Cordon(const std::string& target, const std::string& reason);
  absl::StatusOr<v1::UncordonResponse> Uncordon(const std::string& target);
  absl::StatusOr<v1::ExplainResponse> Explain(const std::string& job);
  absl::StatusOr<v1::ListArtifactsResponse> ListArtifacts(const std::string& job);
  absl::StatusOr<v1::BeginUploadResponse> BeginUpload(const v1::BeginUploadRequest& file);
  // Sends `file` from `offset` on. `read` gives the bytes from an offset on, at most 1 MiB; it is
  // asked in order. Its error, or an interrupt (Cancelled), ends the call.
  absl::StatusOr<v1::UploadResponse> Upload(
      const v1::BeginUploadRequest& file, int64_t offset,
      const std::function<absl::StatusOr<std::string>(int64_t offset)>& read);
  absl::StatusOr<v1::DumpResponse> Dump(const std::string& job, bool stop);
  absl::Status Delete(const std::string& job);
  absl::StatusOr<v1::CreateTokenResponse> CreateToken(const std::string& user,
                                                      const std::string& role, int64_t lifetime_ms);
  absl::StatusOr<v1::ListTokensResponse> ListTokens();
  absl::StatusOr<v1::RevokeTokenResponse> RevokeToken(const std::string& id);
  absl::StatusOr<v1::BuildInfo> Version(Timeout timeout = kCallTimeout);

  // A stream calls `take` for each message. It ends when `take` returns false (OK), when the server
  // ends it, or by an interrupt or `stop` (Cancelled). DeadlineExceeded after a day.
  template <typename Message>
  using Take = std::function<bool(const Message&)>;

  absl::Status Watch(const v1::WatchRequest& request, const Take<v1::JobEvent>& take,
                     const std::stop_token& stop = {});
  absl::Status Logs(const v1::LogsRequest& request, const Take<v1::LogLine>& take);
  absl::Status Inspect(const v1::InspectRequest& request, const Take<v1::InspectResponse>& take);
  absl::Status Fetch(const v1::FetchRequest& request, const Take<v1::FetchResponse>& take);

 private:
  struct Impl;
  std::string address_;
  std::unique_ptr<Impl> impl_;
};

}  // namespace coxswain::cli

#endif  // COXSWAIN_CONTROLLER_CLI_CONNECT_CLIENT_H_
