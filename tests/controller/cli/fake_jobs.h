// A Jobs service in memory that behaves as the controller promises: ids, prefixes and names,
// idempotent submission, streams that wait, and jobs whose steps really advance. Time stands still.
#ifndef COXSWAIN_TESTS_CONTROLLER_CLI_FAKE_JOBS_H_
#define COXSWAIN_TESTS_CONTROLLER_CLI_FAKE_JOBS_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <grpcpp/grpcpp.h>

#include "coxswain/v1/jobs_service.grpc.pb.h"

namespace coxswain::cli {

class FakeJobs final : public v1::Jobs::Service {
 public:
  static constexpr int64_t kNow = 1767323045678;  // 2026-01-02T03:04:05.678Z
  static constexpr int64_t kTotalSteps = 4;

  // Serves on a free loopback port until destroyed.
  FakeJobs();
  ~FakeJobs() override;
  const std::string& address() const { return address_; }

  // A job as Submit makes it, without a YAML. Jobs run only when told to.
  std::string AddJob(const std::string& name, v1::JobState state);
  // Changes a job under the lock and wakes every stream.
  template <typename Change>
  void Edit(const std::string& id, Change change) {
    const std::lock_guard<std::mutex> lock(mutex_);
    change(&jobs_.at(id));
    changed_.notify_all();
  }
  void AddLog(const std::string& id, int rank, const std::string& json);
  void AddArtifact(const std::string& name, const std::string& bytes, int64_t announced);
  // Runs `steps` steps: StepDone events, then PAUSED or, after the last step, SUCCEEDED.
  void RunSteps(const std::string& id, int64_t steps);
  // Breaks every open Watch and Logs stream, as a controller that goes away does.
  void BreakStreams() {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++breaks_;
    changed_.notify_all();
  }
  // The token that the newest call to List brought along.
  std::string shown_token() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return shown_token_;
  }
  // List takes this alone, "": any; and calls `refused` whenever it refuses.
  void TakeOnly(const std::string& authorization) {
    const std::lock_guard<std::mutex> lock(mutex_);
    taken_token_ = authorization;
  }
  void OnRefusal(std::function<void()> refused) {
    const std::lock_guard<std::mutex> lock(mutex_);
    refused_ = std::move(refused);
  }
  bool HasWatcher() const { return watchers_ > 0; }

  grpc::Status Submit(grpc::ServerContext*, const v1::SubmitRequest*, v1::Job*) override;
  grpc::Status Get(grpc::ServerContext*, const v1::GetRequest*, v1::Job*) override;
  grpc::Status List(grpc::ServerContext*, const v1::ListRequest*, v1::ListResponse*) override;
  grpc::Status Watch(grpc::ServerContext*, const v1::WatchRequest*,
                     grpc::ServerWriter<v1::JobEvent>*) override;
  grpc::Status Logs(grpc::ServerContext*, const v1::LogsRequest*,
                    grpc::ServerWriter<v1::LogLine>*) override;
  grpc::Status Cancel(grpc::ServerContext*, const v1::CancelRequest*, v1::Job*) override;
  grpc::Status Pause(grpc::ServerContext*, const v1::PauseRequest*, v1::Job*) override;
  grpc::Status Resume(grpc::ServerContext*, const v1::ResumeRequest*, v1::Job*) override;
  grpc::Status ListWorkers(grpc::ServerContext*, const v1::ListWorkersRequest*,
                           v1::ListWorkersResponse*) override;
  grpc::Status Cordon(grpc::ServerContext*, const v1::CordonRequest*, v1::CordonResponse*) override;
  grpc::Status Uncordon(grpc::ServerContext*, const v1::UncordonRequest*,
                        v1::UncordonResponse*) override;
  grpc::Status Inspect(grpc::ServerContext*, const v1::InspectRequest*,
                       grpc::ServerWriter<v1::InspectResponse>*) override;
  grpc::Status Explain(grpc::ServerContext*, const v1::ExplainRequest*,
                       v1::ExplainResponse*) override;
  grpc::Status ListArtifacts(grpc::ServerContext*, const v1::ListArtifactsRequest*,
                             v1::ListArtifactsResponse*) override;
  grpc::Status Fetch(grpc::ServerContext*, const v1::FetchRequest*,
                     grpc::ServerWriter<v1::FetchResponse>*) override;
  grpc::Status Delete(grpc::ServerContext*, const v1::DeleteRequest*, v1::DeleteResponse*) override;
  grpc::Status CreateToken(grpc::ServerContext*, const v1::CreateTokenRequest*,
                           v1::CreateTokenResponse*) override;
  grpc::Status ListTokens(grpc::ServerContext*, const v1::ListTokensRequest*,
                          v1::ListTokensResponse*) override;
  grpc::Status RevokeToken(grpc::ServerContext*, const v1::RevokeTokenRequest*,
                           v1::RevokeTokenResponse*) override;
  grpc::Status Version(grpc::ServerContext*, const v1::VersionRequest*, v1::BuildInfo*) override;

 private:
  grpc::Status Find(const std::string& word, v1::Job** job);
  void SetState(v1::Job* job, v1::JobState state);
  void AppendEvent(const v1::Job& job, v1::JobEvent event, const std::string& type,
                   const std::string& message);
  void Step(v1::Job* job);
  void RunStepsLocked(v1::Job* job, int64_t steps);

  struct Artifact {
    std::string bytes;
    int64_t announced = 0;
  };

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, v1::Job> jobs_;
  std::vector<std::string> order_;                                   // of submission
  std::map<std::string, std::pair<std::string, std::string>> keys_;  // key -> yaml, job
  std::vector<v1::JobEvent> events_;
  std::map<std::string, std::vector<v1::LogLine>> logs_;
  std::map<std::string, Artifact> artifacts_;
  std::map<std::string, std::string> cordons_;  // reason, by target
  std::vector<v1::Token> tokens_;
  std::atomic<int> watchers_{0};
  std::string shown_token_, taken_token_;
  std::function<void()> refused_;
  int breaks_ = 0;
  bool stopping_ = false;
  std::string address_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace coxswain::cli

#endif  // COXSWAIN_TESTS_CONTROLLER_CLI_FAKE_JOBS_H_
