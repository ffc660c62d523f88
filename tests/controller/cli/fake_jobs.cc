#include "tests/controller/cli/fake_jobs.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include "common/config/parser/job_parser.h"
#include "controller/cli/text/exit_code.h"
#include "controller/cli/text/job_text.h"

namespace coxswain::cli {

using grpc::Status;
using grpc::StatusCode;

namespace {

constexpr int kJobsOfAPage = 2;

}  // namespace

FakeJobs::FakeJobs() {
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(this);
  server_ = builder.BuildAndStart();
  address_ = "127.0.0.1:" + std::to_string(port);
}

FakeJobs::~FakeJobs() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  server_->Shutdown(std::chrono::system_clock::now());
}

std::string FakeJobs::AddJob(const std::string& name, v1::JobState state) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const std::string id = fmt::format("{}-{:06x}", name, order_.size() + 1);
  v1::Job& job = jobs_[id];
  job.set_id(id);
  job.set_name(name);
  job.set_method("lora");
  job.set_base_model("/models/tiny");
  job.set_workers(2);
  job.set_created_unix_ms(kNow - 192000);
  job.mutable_progress()->set_total_steps(kTotalSteps);
  order_.push_back(id);
  SetState(&job, state);
  return id;
}

void FakeJobs::AddLog(const std::string& id, int rank, const std::string& json) {
  const std::lock_guard<std::mutex> lock(mutex_);
  v1::LogLine line;
  line.set_time_unix_ms(kNow);
  line.set_rank(rank);
  line.set_level("info");
  line.set_json(json);
  logs_[id].push_back(line);
  changed_.notify_all();
}

void FakeJobs::AddArtifact(const std::string& name, const std::string& bytes, int64_t announced) {
  const std::lock_guard<std::mutex> lock(mutex_);
  artifacts_[name] = {bytes, announced};
}

void FakeJobs::RunSteps(const std::string& id, int64_t steps) {
  const std::lock_guard<std::mutex> lock(mutex_);
  RunStepsLocked(&jobs_.at(id), steps);
}

Status FakeJobs::Find(const std::string& word, v1::Job** job) {
  std::vector<std::string> matches;
  for (const std::string& id : order_) {
    if (id == word) {
      matches = {id};
      break;
    }
    if (id.compare(0, word.size(), word) == 0 && jobs_[id].name() != word) matches.push_back(id);
    if (jobs_[id].name() == word) matches = {id};  // the newest of that name
  }
  if (matches.size() != 1) {
    return Status(StatusCode::NOT_FOUND,
                  fmt::format("no job \"{}\" ({} match)", word, matches.size()));
  }
  *job = &jobs_[matches[0]];
  return Status::OK;
}

void FakeJobs::AppendEvent(const v1::Job& job, v1::JobEvent event, const std::string& type,
                           const std::string& message) {
  event.set_id(static_cast<int64_t>(events_.size()) + 1);
  event.set_job(job.id());
  event.set_time_unix_ms(kNow - 60000);
  event.set_type(type);
  event.set_message(message);
  event.set_state(job.state());
  events_.push_back(event);
  changed_.notify_all();
}

void FakeJobs::SetState(v1::Job* job, v1::JobState state) {
  job->set_state(state);
  job->set_version(job->version() + 1);
  if (IsTerminal(state)) job->set_finished_unix_ms(kNow);
  AppendEvent(*job, {}, "StateChanged", StateName(state));
}

void FakeJobs::Step(v1::Job* job) {
  v1::Progress* p = job->mutable_progress();
  const int64_t step = p->step();
  const double loss = 4.0 - 0.5 * static_cast<double>(step);
  p->set_step(step + 1);
  p->set_loss(loss);
  p->set_grad_norm(1.25);
  p->set_learning_rate(1e-4);
  v1::JobEvent event;
  v1::StepDone& done = *event.mutable_step_done();
  done.set_step(step);
  done.set_loss(loss);
  done.set_grad_norm(p->grad_norm());
  done.set_learning_rate(p->learning_rate());
  done.set_tokens(2048);
  done.set_tokens_per_second(51200);
  for (int rank = 0; rank < 2; ++rank) {
    v1::RankStep& part = *done.add_ranks();
    part.set_rank(rank);
    part.set_loss_sum(100 * loss);
    part.set_targets(100);
    part.set_tokens(1024);
    part.add_bin_ids(2 * step + rank);
    part.mutable_seconds()->set_forward(0.01);
    part.mutable_seconds()->set_backward(0.02);
    part.mutable_seconds()->set_comm(0.001);
    part.mutable_seconds()->set_optimizer(0.002);
    part.mutable_seconds()->set_step(0.04);
  }
  AppendEvent(*job, std::move(event), "StepDone", fmt::format("step {}", step + 1));
}

void FakeJobs::RunStepsLocked(v1::Job* job, int64_t steps) {
  SetState(job, v1::JOB_STATE_RUNNING);
  const int64_t total = job->progress().total_steps();
  for (int64_t i = 0; i < steps && job->progress().step() < total; ++i) Step(job);
  SetState(job, job->progress().step() == total ? v1::JOB_STATE_SUCCEEDED : v1::JOB_STATE_PAUSED);
}

Status FakeJobs::Submit(grpc::ServerContext*, const v1::SubmitRequest* request, v1::Job* out) {
  const std::string base_dir = std::filesystem::path(request->yaml_path()).parent_path().string();
  const config::ParsedJob parsed = config::ParseJob(request->yaml(), base_dir);
  if (!parsed.errors.empty())
    return Status(StatusCode::INVALID_ARGUMENT,
                  config::FormatErrors(parsed.errors, request->yaml_path()));
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto known = keys_.find(request->idempotency_key());
    if (!request->idempotency_key().empty() && known != keys_.end()) {
      if (known->second.first != request->yaml())
        return Status(StatusCode::ALREADY_EXISTS, "the key belongs to another job");
      *out = jobs_[known->second.second];
      return Status::OK;
    }
  }
  const std::string id = AddJob(
      parsed.spec.name, request->start_paused() ? v1::JOB_STATE_PAUSED : v1::JOB_STATE_QUEUED);
  const std::lock_guard<std::mutex> lock(mutex_);
  v1::Job& job = jobs_[id];
  job.set_yaml(request->yaml());
  job.set_effective_json(parsed.effective_json);
  keys_[request->idempotency_key()] = {request->yaml(), id};
  *out = job;
  return Status::OK;
}

Status FakeJobs::Get(grpc::ServerContext*, const v1::GetRequest* request, v1::Job* out) {
  const std::lock_guard<std::mutex> lock(mutex_);
  v1::Job* job = nullptr;
  const Status found = Find(request->job(), &job);
  if (found.ok()) *out = *job;
  return found;
}

Status FakeJobs::List(grpc::ServerContext* call, const v1::ListRequest* request,
                      v1::ListResponse* out) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto shown = call->client_metadata().find("authorization");
  const bool any = shown != call->client_metadata().end();
  shown_token_ = any ? std::string(shown->second.data(), shown->second.size()) : std::string();
  if (!taken_token_.empty() && shown_token_ != taken_token_) {
    if (refused_) refused_();
    return Status(grpc::StatusCode::UNAUTHENTICATED, "another token");
  }
  size_t left = request->page_token().empty() ? order_.size() : std::stoul(request->page_token());
  for (; left > 0; --left) {
    const v1::Job& job = jobs_[order_[left - 1]];
    const bool matches = std::all_of(
        request->labels().begin(), request->labels().end(), [&](const std::string& label) {
          const size_t equals = label.find('=');
          const auto value = job.labels().find(label.substr(0, equals));
          return value != job.labels().end() && value->second == label.substr(equals + 1);
        });
    if (!matches) continue;
    if (out->jobs_size() == kJobsOfAPage) {
      out->set_next_page_token(std::to_string(left));
      break;
    }
    *out->add_jobs() = job;
  }
  return Status::OK;
}

Status FakeJobs::Watch(grpc::ServerContext* context, const v1::WatchRequest* request,
                       grpc::ServerWriter<v1::JobEvent>* writer) {
  std::unique_lock<std::mutex> lock(mutex_);
  v1::Job* job = nullptr;
  const Status found = Find(request->job(), &job);
  if (!found.ok()) return found;
  ++watchers_;
  const int breaks = breaks_;
  auto next = static_cast<size_t>(request->after_event_id());
  for (;;) {
    for (; next < events_.size(); ++next) {
      if (events_[next].job() == job->id() && !writer->Write(events_[next])) break;
    }
    if (breaks_ != breaks) {
      --watchers_;
      return Status(StatusCode::UNAVAILABLE, "going away");
    }
    if (!request->follow() || IsTerminal(job->state()) || stopping_ || context->IsCancelled())
      break;
    changed_.wait_for(lock, std::chrono::milliseconds(20));
  }
  --watchers_;
  return Status::OK;
}

Status FakeJobs::Logs(grpc::ServerContext* context, const v1::LogsRequest* request,
                      grpc::ServerWriter<v1::LogLine>* writer) {
  std::unique_lock<std::mutex> lock(mutex_);
  v1::Job* job = nullptr;
  const Status found = Find(request->job(), &job);
  if (!found.ok()) return found;
  ++watchers_;
  const std::vector<v1::LogLine>& lines = logs_[job->id()];
  size_t next = lines.size() - std::min<size_t>(lines.size(), static_cast<size_t>(request->tail()));
  for (;;) {
    for (; next < lines.size(); ++next) {
      if (request->rank() < 0 || lines[next].rank() == request->rank()) writer->Write(lines[next]);
    }
    if (!request->follow() || IsTerminal(job->state()) || stopping_ || context->IsCancelled())
      break;
    changed_.wait_for(lock, std::chrono::milliseconds(20));
  }
  --watchers_;
  return Status::OK;
}

Status FakeJobs::Cancel(grpc::ServerContext*, const v1::CancelRequest* request, v1::Job* out) {
  const std::lock_guard<std::mutex> lock(mutex_);
  v1::Job* job = nullptr;
  const Status found = Find(request->job(), &job);
  if (!found.ok()) return found;
  if (IsTerminal(job->state()))
    return Status(StatusCode::FAILED_PRECONDITION, "the job ended already");
  if (request->checkpoint()) AppendEvent(*job, {}, "Warning", "cancelled with nothing to save");
  SetState(job, v1::JOB_STATE_CANCELLED);
  *out = *job;
  return Status::OK;
}

Status FakeJobs::Pause(grpc::ServerContext*, const v1::PauseRequest* request, v1::Job* out) {
  const std::lock_guard<std::mutex> lock(mutex_);
  v1::Job* job = nullptr;
  const Status found = Find(request->job(), &job);
  if (!found.ok()) return found;
  SetState(job, v1::JOB_STATE_DRAINING);
  *out = *job;
  SetState(job, v1::JOB_STATE_PAUSED);
  return Status::OK;
}

Status FakeJobs::Resume(grpc::ServerContext*, const v1::ResumeRequest* request, v1::Job* out) {
  const std::lock_guard<std::mutex> lock(mutex_);
  v1::Job* job = nullptr;
  const Status found = Find(request->job(), &job);
  if (!found.ok()) return found;
  if (job->state() != v1::JOB_STATE_PAUSED) {
    return Status(StatusCode::FAILED_PRECONDITION,
                  fmt::format("job {} is {}, not PAUSED", job->id(), StateName(job->state())));
  }
  SetState(job, v1::JOB_STATE_READY);
  *out = *job;
  if (request->steps() > 0) RunStepsLocked(job, request->steps());
  return Status::OK;
}

Status FakeJobs::CreateToken(grpc::ServerContext*, const v1::CreateTokenRequest* request,
                             v1::CreateTokenResponse* out) {
  const std::lock_guard<std::mutex> lock(mutex_);
  v1::Token& token = tokens_.emplace_back();
  token.set_id(fmt::format("t{}", tokens_.size()));
  token.set_user(request->user());
  token.set_role(request->role());
  token.set_created_unix_ms(kNow);
  token.set_expires_unix_ms(request->lifetime_ms() == 0 ? 0 : kNow + request->lifetime_ms());
  *out->mutable_token() = token;
  out->set_secret("cox_" + token.id() + "_secret");
  return Status::OK;
}

Status FakeJobs::ListTokens(grpc::ServerContext*, const v1::ListTokensRequest*,
                            v1::ListTokensResponse* out) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const v1::Token& token : tokens_) *out->add_tokens() = token;
  return Status::OK;
}

Status FakeJobs::RevokeToken(grpc::ServerContext*, const v1::RevokeTokenRequest* request,
                             v1::RevokeTokenResponse* out) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (v1::Token& token : tokens_) {
    if (token.id() != request->id()) continue;
    token.set_revoked_unix_ms(kNow);
    *out->mutable_token() = token;
    return Status::OK;
  }
  return Status(grpc::StatusCode::NOT_FOUND, "no token '" + request->id() + "'");
}

Status FakeJobs::ListWorkers(grpc::ServerContext*, const v1::ListWorkersRequest*,
                             v1::ListWorkersResponse* out) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (int slot = 0; slot < 2; ++slot) {
    v1::WorkerInfo* worker = out->add_workers();
    worker->set_id(fmt::format("boat/{}", slot));
    worker->set_state("READY");
    worker->set_rank(-1);
    worker->set_address(fmt::format("127.0.0.1:{}", 7080 + slot));
    worker->set_metrics_address(fmt::format("127.0.0.1:{}", 7180 + slot));
    worker->set_host("boat");
    worker->mutable_build()->set_device(slot == 0 ? "cpu" : "cuda");
    worker->set_device_name(slot == 0 ? "cpu" : "NVIDIA H200");
    worker->set_memory_bytes(8ull << 30);
    worker->set_threads(1);
    worker->mutable_build()->set_version("0.1.0");
    worker->mutable_build()->set_commit("abc");
    worker->set_heartbeat_age_seconds(0.25);
    worker->set_pid(100 + slot);
    if (const auto cordon = cordons_.find(worker->id()); cordon != cordons_.end()) {
      worker->set_cordoned(cordon->second);
    }
  }
  for (const auto& [target, reason] : cordons_) {
    v1::WorkerCordon* cordon = out->add_cordons();
    cordon->set_target(target);
    cordon->set_reason(reason);
    cordon->set_since_unix_ms(kNow - 192000);
  }
  return Status::OK;
}

Status FakeJobs::Cordon(grpc::ServerContext*, const v1::CordonRequest* request,
                        v1::CordonResponse* out) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!request->target().starts_with("boat")) {
    return Status(StatusCode::NOT_FOUND, "no worker and no host '" + request->target() + "'");
  }
  cordons_[request->target()] = "by a user: " + request->reason();
  out->add_workers(request->target());
  return Status::OK;
}

Status FakeJobs::Uncordon(grpc::ServerContext*, const v1::UncordonRequest* request,
                          v1::UncordonResponse*) {
  const std::lock_guard<std::mutex> lock(mutex_);
  cordons_.erase(request->target());
  return Status::OK;
}

Status FakeJobs::Inspect(grpc::ServerContext* context, const v1::InspectRequest* request,
                         grpc::ServerWriter<v1::InspectResponse>* writer) {
  v1::InspectResponse response;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    v1::Job* job = nullptr;
    const Status found = Find(request->job(), &job);
    if (!found.ok()) return found;
    response.set_job_state(StateName(job->state()));
    response.set_last_step(7);
    response.set_loss(3.5);
    response.set_grad_norm(1.25);
  }
  for (int rank = 0; rank < 2; ++rank) {
    v1::RankStatus* r = response.add_ranks();
    r->set_rank(rank);
    r->set_worker(fmt::format("boat/{}", rank));
    r->set_host("boat");
    r->set_device_name("cpu");
    r->set_state("RUNNING");
    r->mutable_memory()->set_peak(64ull << 20);
    r->mutable_build()->set_version("0.1.0");
    r->mutable_build()->set_commit("abc");
    r->set_last_step(rank == 0 ? 7 : -1);
    r->set_loss_sum(350);
    r->set_targets(100);
    r->set_tokens(1024);
    r->set_tokens_per_second(25600);
    r->mutable_seconds()->set_forward(0.010);
    r->mutable_seconds()->set_step(0.040);
    r->add_bin_ids(12);
  }
  response.mutable_ranks(1)->set_error("no answer within 2 s");
  response.mutable_pace()->set_steps(9);
  response.mutable_pace()->set_slowest_rank(1);
  response.mutable_pace()->set_slowest_seconds(0.030);
  response.mutable_pace()->set_peer_median_seconds(0.020);
  response.mutable_pace()->set_control_idle_ratio(0.004);
  response.mutable_ranks(0)->set_mfu(0.412);
  response.set_choices("attention: dense");
  writer->Write(response);
  while (request->interval_ms() > 0 && !context->IsCancelled()) {
    std::unique_lock<std::mutex> lock(mutex_);
    if (stopping_) break;
    changed_.wait_for(lock, std::chrono::milliseconds(request->interval_ms()));
    writer->Write(response);
  }
  return Status::OK;
}

Status FakeJobs::Explain(grpc::ServerContext*, const v1::ExplainRequest* request,
                         v1::ExplainResponse* out) {
  const std::lock_guard<std::mutex> lock(mutex_);
  v1::Job* job = nullptr;
  const Status found = Find(request->job(), &job);
  if (found.ok()) out->set_text(job->id() + " needs 2 workers; 1 is free");
  return found;
}

Status FakeJobs::ListArtifacts(grpc::ServerContext*, const v1::ListArtifactsRequest* request,
                               v1::ListArtifactsResponse* out) {
  const std::lock_guard<std::mutex> lock(mutex_);
  v1::Job* job = nullptr;
  const Status found = Find(request->job(), &job);
  if (!found.ok()) return found;
  out->set_directory("/out");
  for (const auto& [name, artifact] : artifacts_) {
    v1::Artifact* entry = out->add_artifacts();
    entry->set_name(name);
    entry->set_bytes(artifact.announced);
  }
  return Status::OK;
}

Status FakeJobs::Fetch(grpc::ServerContext*, const v1::FetchRequest* request,
                       grpc::ServerWriter<v1::FetchResponse>* writer) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const std::string& bytes = artifacts_.at(request->name()).bytes;
  for (size_t at = 0; at < bytes.size(); at += 1000) {
    v1::FetchResponse chunk;
    chunk.set_data(bytes.substr(at, 1000));
    writer->Write(chunk);
  }
  return Status::OK;
}

Status FakeJobs::Delete(grpc::ServerContext*, const v1::DeleteRequest* request,
                        v1::DeleteResponse*) {
  const std::lock_guard<std::mutex> lock(mutex_);
  v1::Job* job = nullptr;
  const Status found = Find(request->job(), &job);
  if (!found.ok()) return found;
  if (!IsTerminal(job->state()))
    return Status(StatusCode::FAILED_PRECONDITION, "the job has not ended");
  const std::string id = job->id();
  order_.erase(std::find(order_.begin(), order_.end(), id));
  jobs_.erase(id);
  return Status::OK;
}

Status FakeJobs::Version(grpc::ServerContext*, const v1::VersionRequest*, v1::BuildInfo* out) {
  out->set_version("0.1.0");
  out->set_commit("abc");
  out->set_protocol(1);
  return Status::OK;
}

}  // namespace coxswain::cli
