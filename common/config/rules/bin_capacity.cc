#include "common/config/rules/bin_capacity.h"

#include "common/config/rules/preference_rules.h"

namespace coxswain::config {

bool TrainsPreferences(const JobSpec& job) { return IsPreferenceMethod(job.method); }

int64_t DocumentsPerUnit(const JobSpec& job) {
  if (job.method == "reward") return 2;
  if (!TrainsPreferences(job)) return 1;
  const std::vector<std::string> without_kl = {"apo_zero_unpaired"};
  return job.preference.loss == without_kl ? 1 : 2;
}

int64_t BinCapacity(const JobSpec& job) { return DocumentsPerUnit(job) * job.sequence_len; }

}  // namespace coxswain::config
