#include "controller/data/early_end.h"

#include "absl/strings/cord.h"

namespace coxswain::data {
namespace {

constexpr char kPayload[] = "coxswain/token-cache";

}  // namespace

absl::Status OfTokenCache(absl::Status status) {
  if (!status.ok()) status.SetPayload(kPayload, absl::Cord());
  return status;
}

bool IsOfTokenCache(const absl::Status& status) { return status.GetPayload(kPayload).has_value(); }

}  // namespace coxswain::data
