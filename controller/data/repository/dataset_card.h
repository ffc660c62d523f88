// What the README of a repository says of its data: `configs:` of the YAML at its head.
// Source: datasets 5.2, utils/metadata.py; huggingface_hub, repocard.py.
#ifndef COXSWAIN_CONTROLLER_DATA_REPOSITORY_DATASET_CARD_H_
#define COXSWAIN_CONTROLLER_DATA_REPOSITORY_DATASET_CARD_H_

#include <string>
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

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_REPOSITORY_DATASET_CARD_H_
