// What stands for `auto` resources.
#ifndef COXSWAIN_COMMON_CONFIG_CHOSEN_RESOURCES_H_
#define COXSWAIN_COMMON_CONFIG_CHOSEN_RESOURCES_H_

#include <cstdint>
#include <optional>

#include "common/config/job_spec.h"

namespace coxswain::config {

// What `auto` under spec.resources stands for, as far as it is known.
struct ChosenResources {
  std::optional<Device> device = {};
  std::optional<int64_t> workers = {};
};

}  // namespace coxswain::config

#endif  // COXSWAIN_COMMON_CONFIG_CHOSEN_RESOURCES_H_
