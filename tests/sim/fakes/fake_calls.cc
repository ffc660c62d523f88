#include "tests/sim/fakes/fake_workers.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "controller/checkpoint/manifest.h"

namespace coxswain::sim {
namespace {

constexpr char kShard[] = "/rank-0.shard";

constexpr char kStandsStill[] =
    "stacks of process 1 by gdb:\n"
    "Thread 1 (LWP 1 \"fake\"):\n#0  0x01 in Multiply ()\n#1  0x02 in coxswain::Train ()\n";
constexpr char kWaits[] =
    "stacks of process 1 by gdb:\n"
    "Thread 1 (LWP 1 \"fake\"):\n#0  0x03 in AllReduce ()\n#1  0x02 in coxswain::Train ()\n";

}  // namespace

// The request travels, is served, and the answer travels back; without a worker the call times out.
// A controller that died meanwhile hears nothing.
template <typename Response>
void FakeWorkers::Answer(const WorkerTarget& worker, Timeout timeout, Done<Response> done,
                         std::function<absl::StatusOr<Response>(Process&)> serve) {
  agenda_->After(Delay(), [this, worker, timeout, done, serve, generation = generation_] {
    Process* process = Find(worker);
    if (process == nullptr) {
      const bool dead = std::none_of(processes_.begin(), processes_.end(), [&](const auto& entry) {
        return entry.second.incarnation == worker.incarnation && entry.second.alive;
      });
      const absl::Status status = dead ? absl::UnavailableError("connection refused")
                                       : absl::DeadlineExceededError("no answer");
      ToController(generation, dead ? 1 : timeout.count(), [done, status] { done(status); });
      return;
    }
    absl::StatusOr<Response> response = serve(*process);
    ToController(generation, Delay() + std::exchange(process->answer_delay_ms, 0),
                 [done, response] { done(response); });
  });
}

void FakeWorkers::CheckDurable(const v1::Fence& fence) {
  if (store_ == nullptr) return;
  const auto epochs = *store_->Epochs(fence.job());
  const bool durable = std::any_of(epochs.begin(), epochs.end(), [&](const store::EpochRow& row) {
    return row.epoch == fence.epoch() && row.term == fence.term();
  });
  if (!durable) Violation("a Prepare carried an epoch that is not in the store");
}

absl::StatusOr<v1::PrepareResponse> FakeWorkers::ServePrepare(Process& process,
                                                              const v1::PrepareRequest& request) {
  RETURN_IF_ERROR(process.gate.CheckOpen(request.fence()).status());
  CheckDurable(request.fence());
  DropEpoch(process, "superseded");
  process.gate.Open(request.fence());
  process.opened = request.fence().term();
  const absl::Status loaded = Load(process, request);
  if (!loaded.ok()) {
    DropEpoch(process, "Prepare failed");
    return loaded;
  }
  process.answer_delay_ms = process.prepare_delay_ms;
  v1::PrepareResponse response;
  response.set_fingerprint(process.fingerprint);
  response.set_start_step(process.model.steps);
  response.set_applied_updates(process.model.steps);
  if (process.rank == 0) response.set_gemm_table(process.gemm_table);
  return response;
}

absl::Status FakeWorkers::Load(Process& process, const v1::PrepareRequest& request) {
  RETURN_IF_ERROR(prepare_error_);
  ASSIGN_OR_RETURN(const std::string nonce, files_->Read(request.nonce_path()));
  if (nonce != request.nonce()) return absl::NotFoundError("the nonce differs");
  process.rank = request.rank();
  process.world = request.world_size();
  process.gemm_table = request.gemm_table();
  if (process.gemm_table.empty()) process.gemm_table = process.incarnation;
  process.last_seq = 0;
  process.model = FakeModel();
  process.read_back.reset();
  if (request.checkpoint_dir().empty()) return absl::OkStatus();
  RETURN_IF_ERROR(CheckShards(request.checkpoint_dir()));
  ASSIGN_OR_RETURN(const std::string shard, files_->Read(request.checkpoint_dir() + kShard));
  process.model = FakeModel::Parse(shard);
  return absl::OkStatus();
}

// As an engine does where it reads.
absl::Status FakeWorkers::CheckShards(const std::string& directory) {
  ASSIGN_OR_RETURN(const checkpoint::Manifest manifest,
                   checkpoint::ReadManifest(files_, directory));
  for (const ManifestFile& file : manifest.files) {
    if (!file.in_blocks()) continue;
    RETURN_IF_ERROR(files_->CheckBlocks(absl::StrCat(directory, "/", file.name), file.blocks()));
  }
  return absl::OkStatus();
}

void FakeWorkers::Prepare(const WorkerTarget& worker, const v1::PrepareRequest& request,
                          Timeout timeout, Done<v1::PrepareResponse> done) {
  Answer<v1::PrepareResponse>(worker, timeout, std::move(done), [this, request](Process& process) {
    return ServePrepare(process, request);
  });
}

absl::StatusOr<v1::SaveShardResponse> FakeWorkers::ServeSave(Process& process,
                                                             const v1::SaveShardRequest& request) {
  RETURN_IF_ERROR(process.gate.Check(request.fence()));
  if (!process.snapshot || process.snapshot->steps != request.step()) {
    return absl::FailedPreconditionError("not the newest snapshot");
  }
  process.answer_delay_ms = process.save_delay_ms;
  RETURN_IF_ERROR(process.save_error);
  const std::string content = process.snapshot->Serialize();
  if (process.dies_in_save) {
    files_->WriteDurably(request.directory() + kShard, content.substr(0, content.size() / 2))
        .IgnoreError();
    agenda_->After(0, [this, slot = process.slot] { on_ended_(slot); });
    return absl::UnavailableError("reset");
  }
  v1::SaveShardResponse response;
  if (process.rank != 0) return response;
  std::string written = content;
  if (std::exchange(process.damages_shard, false)) written.front() ^= 1;
  RETURN_IF_ERROR(files_->WriteDurably(request.directory() + kShard, written));
  v1::ShardFile* file = response.add_files();
  file->set_name("rank-0.shard");
  file->set_bytes(static_cast<int64_t>(content.size()));
  file->set_block_digests(DigestsOf(content).digests);
  return response;
}

void FakeWorkers::SaveShard(const WorkerTarget& worker, const v1::SaveShardRequest& request,
                            Timeout timeout, Done<v1::SaveShardResponse> done) {
  Answer<v1::SaveShardResponse>(
      worker, timeout, std::move(done),
      [this, request](Process& process) { return ServeSave(process, request); });
}

void FakeWorkers::Inspect(const WorkerTarget& worker, Timeout timeout,
                          Done<v1::WorkerInspectResponse> done) {
  Answer<v1::WorkerInspectResponse>(
      worker, timeout, std::move(done),
      [](Process& process) -> absl::StatusOr<v1::WorkerInspectResponse> {
        v1::WorkerInspectResponse response;
        *response.mutable_fence() = process.fence();
        response.set_rank(process.rank);
        response.set_state("RUNNING");
        response.set_last_step(process.model.steps - 1);
        return response;
      });
}

void FakeWorkers::Dump(const WorkerTarget& worker, Timeout timeout,
                       Done<v1::WorkerDumpResponse> done) {
  Answer<v1::WorkerDumpResponse>(
      worker, timeout, std::move(done),
      [](Process& process) -> absl::StatusOr<v1::WorkerDumpResponse> {
        v1::WorkerDumpResponse response;
        response.set_json(absl::StrCat("{\"epoch\":", process.fence().epoch(), "}"));
        return response;
      });
}

void FakeWorkers::Abort(const WorkerTarget& worker, const v1::AbortRequest& request,
                        Timeout timeout, Done<v1::AbortResponse> done) {
  Answer<v1::AbortResponse>(worker, timeout, std::move(done),
                            [this, request](Process& process) -> absl::StatusOr<v1::AbortResponse> {
                              ASSIGN_OR_RETURN(
                                  const bool current,
                                  process.gate.CheckEnd(request.fence(), request.gang_term()));
                              if (current) DropEpoch(process, "aborted by the controller");
                              return v1::AbortResponse();
                            });
}

void FakeWorkers::Release(const WorkerTarget& worker, const v1::ReleaseRequest& request,
                          Timeout timeout, Done<v1::ReleaseResponse> done) {
  Answer<v1::ReleaseResponse>(
      worker, timeout, std::move(done),
      [this, request](Process& process) -> absl::StatusOr<v1::ReleaseResponse> {
        ASSIGN_OR_RETURN(const bool current, process.gate.CheckEnd(request.fence()));
        if (current) DropEpoch(process, "released by the controller");
        return v1::ReleaseResponse();
      });
}

// The supervisor of the worker answers, whatever the worker does.
template <typename Response>
void FakeWorkers::AskSupervisor(const WorkerTarget& worker, Timeout timeout, Done<Response> done,
                                std::function<Response(Process&)> serve) {
  agenda_->After(Delay(), [this, worker, timeout, done, serve, generation = generation_] {
    const auto found = std::find_if(processes_.begin(), processes_.end(), [&](const auto& entry) {
      return entry.second.incarnation == worker.incarnation && entry.second.alive;
    });
    if (found == processes_.end()) {
      ToController(generation, Delay(), [done] { done(absl::NotFoundError("it has ended")); });
    } else if (found->second.cut) {
      ToController(generation, timeout.count(),
                   [done] { done(absl::DeadlineExceededError("no answer")); });
    } else {
      const Response response = serve(found->second);
      ToController(generation, Delay(), [done, response] { done(response); });
    }
  });
}

void FakeWorkers::EndWorker(const WorkerTarget& worker, const std::string&, Timeout timeout,
                            Done<v1::EndWorkerResponse> done) {
  AskSupervisor<v1::EndWorkerResponse>(worker, timeout, std::move(done), [this](Process& process) {
    if (on_ended_) on_ended_(process.slot);
    return v1::EndWorkerResponse();
  });
}

void FakeWorkers::Stacks(const WorkerTarget& worker, int64_t, Timeout timeout,
                         Done<v1::StacksResponse> done) {
  AskSupervisor<v1::StacksResponse>(worker, timeout, std::move(done), [](Process& process) {
    v1::StacksResponse response;
    response.set_text(process.hung || process.stopped ? kStandsStill : kWaits);
    response.mutable_process()->set_pid(process.slot + 1);
    response.mutable_process()->set_state(process.stopped ? "T (stopped)" : "S (sleeping)");
    return response;
  });
}

}  // namespace coxswain::sim
