// Which config of a dataset repository is meant.
#ifndef COXSWAIN_CONTROLLER_DATA_REPOSITORY_CHOOSE_CONFIG_H_
#define COXSWAIN_CONTROLLER_DATA_REPOSITORY_CHOOSE_CONFIG_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace coxswain::data {

// The index in `names` of the one that was asked for or, where `asked` is empty, of the only one,
// of `default`, or of "default". InvalidArgument lists the names: it is not there, or none was
// asked for and none of these is there.
absl::StatusOr<size_t> ChooseConfig(const std::vector<std::string>& names, std::string_view asked,
                                    std::string_view preferred);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_REPOSITORY_CHOOSE_CONFIG_H_
