#include "controller/gang/formation.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/faults/fault_point.h"
#include "common/guarded.h"
#include "common/identity.h"
#include "common/logging.h"
#include "common/status_macros.h"

namespace coxswain::gang {
namespace {

// "to/3/...": the key is for rank 3 alone.
std::optional<int> AddresseeOf(const std::string& key, int world_size) {
  const std::vector<std::string> parts = absl::StrSplit(key, absl::MaxSplits('/', 2));
  int rank = 0;
  if (parts.size() != 3 || parts[0] != "to" || !absl::SimpleAtoi(parts[1], &rank)) {
    return std::nullopt;
  }
  return rank >= 0 && rank < world_size ? std::optional<int>(rank) : std::nullopt;
}

}  // namespace

Formation::Formation(const Deps& deps, Gang* gang, FormArgs args, Done done, Tell tell)
    : deps_(deps),
      gang_(gang),
      args_(std::move(args)),
      done_(std::move(done)),
      tell_(std::move(tell)),
      preparing_(gang->ranks.size(), true),
      heard_(gang->ranks.size(), false),
      connected_(gang->ranks.size(), false) {}

failure::Where Formation::At(int rank, const char* phase) const {
  return {.rank = rank, .host = gang_->ranks[rank].host, .phase = phase};
}

void Formation::Finish(std::optional<v1::Error> error) {
  if (finished_) return;
  finished_ = true;
  Files* files = deps_.files;
  deps_.loop->Offload(
      Lane::kFiles,
      [files, paths = std::vector<std::string>{nonce_path_, args_.tokens.nonce_path()}] {
        for (const std::string& path : paths) {
          if (!path.empty()) files->RemoveAll(path).IgnoreError();
        }
      },
      [] {});
  for (auto& stream : streams_) {
    if (stream) stream->WritesDone();
  }
  done_(std::move(error));
}

void Formation::Arrive(state::GangEvent event) {
  absl::StatusOr<state::GangStatus> next = state::Transition(gang_->status, event);
  if (next.ok()) gang_->status = *next;
}

void Formation::Start() { WriteNonces(); }

// One where artifacts go, which every rank must see, and one beside the token stores, which a rank
// may see.
void Formation::WriteNonces() {
  const std::string directory = args_.output_dir + "/.staging";
  const std::string name = absl::StrCat("/nonce-", gang_->job, "-", gang_->epoch);
  nonce_ = NewUuid();
  nonce_path_ = directory + name;
  const std::string& store = args_.tokens.train().path();
  if (!store.empty()) {
    args_.tokens.set_nonce(NewUuid());
    args_.tokens.set_nonce_path(store.substr(0, store.rfind('/')) + name);
  }
  auto status = std::make_shared<absl::Status>();
  Files* files = deps_.files;
  deps_.loop->Offload(
      Lane::kFiles,
      GuardedInto(
          status,
          [files, status, directory, path = nonce_path_, nonce = nonce_, tokens = args_.tokens] {
            *status = files->MakeDirs(directory);
            if (status->ok()) *status = files->WriteDurably(path, nonce);
            if (status->ok()) *status = fault::Reach(fault::Point::kNonceWritten);
            if (!status->ok() || tokens.nonce_path().empty()) return;
            const absl::Status beside = files->WriteDurably(tokens.nonce_path(), tokens.nonce());
            if (beside.ok()) return;  // without it commands carry tokens
            log::Warning("token stores are not offered to workers",
                         {{"file", tokens.nonce_path()}, {"error", beside.ToString()}});
          }),
      lifetime_.Wrap([this, status] {
        if (status->ok()) {
          SendPrepare();
        } else {
          Finish(failure::MakeError(
              absl::Status(status->code(), absl::StrCat("checkpoint.output_dir is not writable: ",
                                                        std::string(status->message()))),
              {.phase = "output"}));
        }
      }));
}

void Formation::SendPrepare() {
  for (int rank = 0; rank < gang_->world_size(); ++rank) {
    v1::PrepareRequest request;
    *request.mutable_fence() = gang_->FenceOf(rank);
    request.set_rank(rank);
    request.set_world_size(gang_->world_size());
    request.set_plan(gang_->plan_bytes);
    request.set_checkpoint_dir(args_.checkpoint_dir);
    request.set_checkpoint_recipe(args_.checkpoint_recipe);
    request.set_nonce_path(nonce_path_);
    request.set_nonce(nonce_);
    *request.mutable_tokens() = args_.tokens;
    request.set_gemm_table(args_.gemm_table);
    deps_.transport->Prepare(
        gang_->ranks[rank].target, request, WorkerTransport::kAsLongAsItTakes,
        lifetime_.Wrap([this, rank](const absl::StatusOr<v1::PrepareResponse>& response) {
          OnPrepared(rank, response);
        }));
    fault::Pass(fault::Point::kPrepareSent, {.rank = rank});
  }
  watch_.emplace(deps_, gang_, StallWatch::Of::kWork);
  CheckStalls();
}

// Weights may take hours from slow storage: what counts is that they come.
void Formation::CheckStalls() {
  if (finished_ || gang_->status.phase != state::GangPhase::kPreparing) return;
  constexpr char kDoing[] = "loads its weights";
  const std::chrono::milliseconds limit = deps_.settings.prepare_timeout;
  watch_->Look();
  if (const auto stalled = watch_->Find(preparing_, limit, kDoing)) {
    Finish(failure::MakeError(stalled->status, At(stalled->rank, "prepare")));
    return;
  }
  if (const auto message = watch_->ToTell(preparing_, limit, kDoing)) tell_(*message);
  deps_.loop->After(StallWatch::kPeriod, lifetime_.Wrap([this] { CheckStalls(); }));
}

absl::Status Formation::CheckPrepared(int rank, const v1::PrepareResponse& response) {
  if (response.start_step() != args_.start_step) {
    return absl::InternalError(absl::StrCat("would start at step ", response.start_step(),
                                            ", the controller at ", args_.start_step));
  }
  if (!gang_->fingerprint.empty() && gang_->fingerprint != response.fingerprint()) {
    return absl::FailedPreconditionError(
        absl::StrCat("has fingerprint '", response.fingerprint(), "', another rank has '",
                     gang_->fingerprint, "': use workers of one build, device and thread count"));
  }
  gang_->fingerprint = response.fingerprint();
  gang_->start_step = response.start_step();
  gang_->applied_updates = response.applied_updates();
  if (rank == 0) gang_->gemm_table = response.gemm_table();
  gang_->ranks[rank].memory = response.memory();
  gang_->ranks[rank].maps_tokens = response.maps_tokens();
  return absl::OkStatus();
}

void Formation::OnPrepared(int rank, const absl::StatusOr<v1::PrepareResponse>& response) {
  if (finished_) return;
  const absl::Status status = response.ok() ? CheckPrepared(rank, *response) : response.status();
  if (!status.ok()) {
    // Ranks that differ do not tell which of them is the odd one.
    Finish(failure::MakeError(status, At(rank, response.ok() ? "form" : "prepare")));
    return;
  }
  preparing_[rank] = false;
  Arrive(state::GangEvent::kRankPrepared);
  if (gang_->status.phase == state::GangPhase::kConnecting) OpenConnect();
}

void Formation::OpenConnect() {
  streams_.resize(gang_->ranks.size());
  for (int rank = 0; rank < gang_->world_size(); ++rank) {
    Incoming<v1::ConnectResponse> incoming;
    incoming.on_message = lifetime_.Wrap(
        [this, rank](const v1::ConnectResponse& message) { OnConnectMessage(rank, message); });
    incoming.on_closed =
        lifetime_.Wrap([this, rank](const absl::Status& status) { OnConnectClosed(rank, status); });
    streams_[rank] = deps_.transport->Connect(gang_->ranks[rank].target, std::move(incoming));
    v1::ConnectRequest hello;
    *hello.mutable_fence() = gang_->FenceOf(rank);
    hello.set_gemm_table(gang_->gemm_table);
    streams_[rank]->Write(hello);
    fault::Pass(fault::Point::kConnectSent, {.rank = rank});
  }
  deps_.loop->Deadline(deps_.settings.connect_timeout,
                       lifetime_.Wrap([this] { OnConnectTimeout(); }));
}

// One missing rank keeps all from connecting: where some were never heard of, it is those.
void Formation::OnConnectTimeout() {
  if (finished_) return;
  const bool all_heard =
      std::all_of(heard_.begin(), heard_.end(), [](bool heard) { return heard; });
  const std::vector<bool>& there = all_heard ? connected_ : heard_;
  std::vector<std::string> missing;
  int first = -1;
  for (int rank = 0; rank < gang_->world_size(); ++rank) {
    if (there[rank]) continue;
    if (first < 0) first = rank;
    missing.push_back(absl::StrCat(rank, " (", gang_->ranks[rank].host, ")"));
  }
  const absl::Status status = absl::DeadlineExceededError(
      absl::StrCat("rank ", absl::StrJoin(missing, ", "),
                   all_heard ? " did not connect within " : " sent nothing to the others within ",
                   deps_.settings.connect_timeout.count(), " ms"));
  Finish(failure::MakeError(
      status, missing.size() == 1 ? At(first, "connect") : failure::Where{.phase = "connect"}));
}

void Formation::OnConnectMessage(int rank, const v1::ConnectResponse& message) {
  if (finished_) return;
  heard_[rank] = true;
  if (message.has_set()) {
    v1::ConnectRequest relay;
    relay.set_key(message.set().key());
    relay.set_value(message.set().value());
    const std::optional<int> only = AddresseeOf(relay.key(), gang_->world_size());
    for (int other = 0; other < gang_->world_size(); ++other) {
      if (other != rank && other == only.value_or(other)) streams_[other]->Write(relay);
    }
    return;
  }
  if (!message.has_done()) return;
  if (!message.done().error().code().empty()) {
    v1::Error told = message.done().error();
    told.set_phase("connect");
    Finish(failure::ToldBy(At(rank, "connect"), std::move(told)));
    return;
  }
  if (const absl::Status same = CheckConnected(message.done()); !same.ok()) {
    Finish(failure::MakeError(same, At(rank, "connect")));
    return;
  }
  connected_[rank] = true;
  TakeLinks(message.done());
  Arrive(state::GangEvent::kRankConnected);
  if (gang_->status.phase != state::GangPhase::kRunning) return;
  if (!group_fingerprint_->empty()) absl::StrAppend(&gang_->fingerprint, " ", *group_fingerprint_);
  Finish(std::nullopt);
}

// The ranks compared notes before they told: one that differs is in another group than it believes.
absl::Status Formation::CheckConnected(const v1::ConnectDone& done) {
  if (!group_fingerprint_) group_fingerprint_ = done.fingerprint();
  if (*group_fingerprint_ == done.fingerprint()) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("connected with fingerprint '", done.fingerprint(),
                                          "', another rank with '", *group_fingerprint_,
                                          "': their sums would not agree"));
}

// All ranks measure the same points: the slowest of them is the link's.
void Formation::TakeLinks(const v1::ConnectDone& done) {
  for (int i = 0; i < done.links_size(); ++i) {
    const plan::LinkSpeed link{.bytes = done.links(i).bytes(),
                               .bytes_per_second = done.links(i).bytes_per_second()};
    if (link.bytes <= 0 || !(link.bytes_per_second > 0)) continue;
    const auto known =
        std::find_if(gang_->links.begin(), gang_->links.end(),
                     [&link](const plan::LinkSpeed& other) { return other.bytes == link.bytes; });
    if (known == gang_->links.end()) {
      gang_->links.push_back(link);
    } else {
      known->bytes_per_second = std::min(known->bytes_per_second, link.bytes_per_second);
    }
  }
}

void Formation::OnConnectClosed(int rank, const absl::Status& status) {
  if (finished_ || connected_[rank]) return;
  const absl::Status cause =
      status.ok() ? absl::UnavailableError("its Connect stream ended early") : status;
  Finish(failure::MakeError(cause, At(rank, "connect")));
}

}  // namespace coxswain::gang
