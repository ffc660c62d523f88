// What the README of a repository says of its data: `configs:` of the YAML at its head.
// Source: datasets 5.2, utils/metadata.py; huggingface_hub, repocard.py.
#ifndef COXSWAIN_CONTROLLER_DATA_REPOSITORY_DATASET_CARD_H_
#define COXSWAIN_CONTROLLER_DATA_REPOSITORY_DATASET_CARD_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "controller/data/repository/split_patterns.h"

namespace coxswain::data {

struct CardConfig {
  std::string name = {};
  std::vector<SplitPatterns> data_files = {};  // empty: they are guessed
  std::string data_dir = {};                   // below the repository's root
  bool is_default = false;                     // `default: true`
  std::vector<std::string> options = {};       // keys that change how the library reads the files
};

struct DatasetCard {
  std::vector<CardConfig> configs;  // in the order of the card
  std::string only_info;            // the config of which alone dataset_info speaks; empty: none
};

// A card without YAML at its head has no configs. Of two configs of one name the last counts.
// InvalidArgument names the line: YAML that is none, a config without a name, data_files of another
// form or of one split twice.
absl::StatusOr<DatasetCard> ReadDatasetCard(const std::string& readme);

// Which config of a dataset repository is meant.

// The index in `names` of the one that was asked for or, where `asked` is empty, of the only one,
// of `default`, or of "default". InvalidArgument lists the names: it is not there, or none was
// asked for and none of these is there.
absl::StatusOr<size_t> ChooseConfig(const std::vector<std::string>& names, std::string_view asked,
                                    std::string_view preferred);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_REPOSITORY_DATASET_CARD_H_
