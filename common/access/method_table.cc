#include "common/access/method_table.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace coxswain::access {

const std::vector<MethodRow>& MethodTable() {
  using enum Role;
  static const auto* const kTable = new std::vector<MethodRow>{
      {.method = "Jobs.Submit", .roles = {kUser, kOperator}, .mutates = true},
      {.method = "Jobs.Validate", .roles = {kUser, kOperator}},
      {.method = "Jobs.Plan", .roles = {kUser, kOperator}},
      {.method = "Jobs.Get", .roles = {kUser, kOperator}, .own_job = true},
      {.method = "Jobs.List", .roles = {kUser, kOperator}},  // a user gets own jobs
      {.method = "Jobs.Watch", .roles = {kUser, kOperator}, .own_job = true},
      {.method = "Jobs.Logs", .roles = {kUser, kOperator}, .own_job = true},
      {.method = "Jobs.Cancel", .roles = {kUser, kOperator}, .own_job = true, .mutates = true},
      {.method = "Jobs.Pause", .roles = {kUser, kOperator}, .own_job = true, .mutates = true},
      {.method = "Jobs.Resume", .roles = {kUser, kOperator}, .own_job = true, .mutates = true},
      {.method = "Jobs.ListWorkers", .roles = {kUser, kOperator}},  // a user gets less of them
      {.method = "Jobs.Cordon", .roles = {kOperator}, .mutates = true},
      {.method = "Jobs.Uncordon", .roles = {kOperator}, .mutates = true},
      {.method = "Jobs.Inspect", .roles = {kUser, kOperator}, .own_job = true},
      {.method = "Jobs.Explain", .roles = {kUser, kOperator}, .own_job = true},
      {.method = "Jobs.ListArtifacts", .roles = {kUser, kOperator}, .own_job = true},
      {.method = "Jobs.Fetch", .roles = {kUser, kOperator}, .own_job = true},
      {.method = "Jobs.BeginUpload", .roles = {kUser, kOperator}},  // a user has own files
      {.method = "Jobs.Upload", .roles = {kUser, kOperator}, .mutates = true},
      {.method = "Jobs.Dump", .roles = {kUser, kOperator}, .own_job = true, .mutates = true},
      {.method = "Jobs.Delete", .roles = {kUser, kOperator}, .own_job = true, .mutates = true},
      {.method = "Jobs.Version", .roles = {kUser, kOperator}},
      {.method = "Jobs.CreateToken", .roles = {kOperator}, .mutates = true},
      {.method = "Jobs.ListTokens", .roles = {kOperator}},
      {.method = "Jobs.RevokeToken", .roles = {kOperator}, .mutates = true},
      // The certificate of a host is its supervisor's and its workers'.
      {.method = "Registry.Register", .roles = {kWorker, kSupervisor}, .mutates = true},
      {.method = "Registry.Heartbeat", .roles = {kWorker, kSupervisor}},
      {.method = "Worker.Prepare", .roles = {kController}, .mutates = true},
      {.method = "Worker.Connect", .roles = {kController}, .mutates = true},
      {.method = "Worker.Run", .roles = {kController, kSupervisor}, .mutates = true},
      {.method = "Worker.SaveShard", .roles = {kController}, .mutates = true},
      {.method = "Worker.Logs", .roles = {kController}},
      {.method = "Worker.Inspect", .roles = {kController}},
      {.method = "Worker.Dump", .roles = {kController}},
      {.method = "Worker.Abort", .roles = {kController}, .mutates = true},
      {.method = "Worker.Release", .roles = {kController}, .mutates = true},
      {.method = "Relay.Run", .roles = {kController}, .mutates = true},
      {.method = "Relay.EndWorker", .roles = {kController}, .mutates = true},
      {.method = "Relay.Stacks", .roles = {kController}},
  };
  return *kTable;
}

const MethodRow* FindMethod(std::string_view method) {
  for (const MethodRow& row : MethodTable()) {
    if (row.method == method) return &row;
  }
  return nullptr;
}

absl::Status Authorize(const Principal& principal, std::string_view method) {
  const MethodRow* const row = FindMethod(method);
  if (row != nullptr &&
      std::find(row->roles.begin(), row->roles.end(), principal.role) != row->roles.end()) {
    return absl::OkStatus();
  }
  const std::string allowed =
      row == nullptr || row->roles.empty()
          ? std::string("nobody")
          : absl::StrJoin(row->roles, " or ", [](std::string* out, Role role) {
              absl::StrAppend(out, std::string(RoleName(role)));
            });
  return absl::PermissionDeniedError(absl::StrCat(
      ToText(principal), " may not call ", std::string(method), ": it is for role ", allowed));
}

}  // namespace coxswain::access
