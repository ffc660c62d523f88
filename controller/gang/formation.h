// FORMING: every rank prepares the plan, then the ranks find each other.
#ifndef COXSWAIN_CONTROLLER_GANG_FORMATION_H_
#define COXSWAIN_CONTROLLER_GANG_FORMATION_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "controller/failure/errors.h"
#include "controller/gang/gang.h"
#include "controller/gang/stall_watch.h"

namespace coxswain::gang {

struct FormArgs {
  std::string output_dir;      // shared storage: a nonce written here must be readable by each rank
  std::string checkpoint_dir;  // start from it, empty: base weights
  std::string checkpoint_recipe = {};  // hex, where it is another than the plan's
  int64_t start_step = 0;              // of that checkpoint
  std::string gemm_table = {};         // of an earlier gang of the job, empty: none
  v1::TokenStores tokens;              // without nonce: of the curriculum
};

// Lives while its gang forms; destroying it stops that. The epoch must be durable before Start.
class Formation {
 public:
  // nullopt: the gang is RUNNING and its fingerprint (that of Prepare and that of Connect), memory
  // and counters are filled in.
  using Done = std::function<void(std::optional<v1::Error>)>;
  // What people are told while it lasts.
  using Tell = std::function<void(const std::string& message)>;

  Formation(const Deps& deps, Gang* gang, FormArgs args, Done done, Tell tell);
  void Start();

 private:
  void WriteNonces();
  void SendPrepare();
  void CheckStalls();
  void OnPrepared(int rank, const absl::StatusOr<v1::PrepareResponse>& response);
  absl::Status CheckPrepared(int rank, const v1::PrepareResponse& response);
  void OpenConnect();
  void OnConnectTimeout();
  void OnConnectMessage(int rank, const v1::ConnectResponse& message);
  void OnConnectClosed(int rank, const absl::Status& status);
  void Arrive(state::GangEvent event);
  absl::Status CheckConnected(const v1::ConnectDone& done);
  void TakeLinks(const v1::ConnectDone& done);
  void Finish(std::optional<v1::Error> error);
  failure::Where At(int rank, const char* phase) const;

  const Deps deps_;
  Gang* const gang_;
  FormArgs args_;
  Done done_;
  const Tell tell_;
  bool finished_ = false;
  std::string nonce_path_;
  std::string nonce_;
  std::vector<std::unique_ptr<Outgoing<v1::ConnectRequest>>> streams_;
  std::optional<StallWatch> watch_;  // while ranks prepare
  std::vector<bool> preparing_;
  std::vector<bool> heard_;  // something came on its Connect stream
  std::vector<bool> connected_;
  std::optional<std::string> group_fingerprint_;  // of the first rank that connected
  Lifetime lifetime_;
};

}  // namespace coxswain::gang

#endif  // COXSWAIN_CONTROLLER_GANG_FORMATION_H_
