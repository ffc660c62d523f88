// The data files of a dataset repository as Hugging Face's datasets resolves them. Nothing is
// fetched: what the repository lists decides, and its README.
// Source: datasets 5.2, load.py HubDatasetModuleFactory and builder.py _create_builder_config.
#ifndef COXSWAIN_CONTROLLER_DATA_REPOSITORY_RESOLVE_REPOSITORY_H_
#define COXSWAIN_CONTROLLER_DATA_REPOSITORY_RESOLVE_REPOSITORY_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "controller/data/repository/split_patterns.h"

namespace coxswain::data {

struct RepositoryQuery {
  std::string id;                              // "owner/name"
  std::vector<std::string> files;              // all of the revision, as paths from its root
  std::string readme = {};                     // text of README.md; empty: there is none
  std::string name = {};                       // of the config asked for; empty: none
  std::vector<SplitPatterns> data_files = {};  // asked for; empty: the repository decides
  std::string data_dir = {};                   // asked for; empty: the root
};

struct SplitFiles {
  std::string split;
  std::vector<std::string> files;  // in the order in which they are read; at least one
};

struct RepositoryData {
  std::string config;              // its name, where the card has configs
  std::vector<SplitFiles> splits;  // in the library's order
  // Why the hub's own copy in Parquet has to be read (converted_branch.h): a clause such as "needs
  // its script squad.py". Empty: the splits are there; else there are none.
  std::string use_converted;
  std::string note;  // what the user should know; empty: nothing
};

// A file that the library would read twice is there twice. InvalidArgument, naming the repository:
// several configs and none asked for (it lists them), one that is not there, a path that is not
// there or leaves the repository, files of several formats, no data file at all; errors of
// ReadDatasetCard and GuessSplits.
absl::StatusOr<RepositoryData> ResolveRepository(const RepositoryQuery& query);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_REPOSITORY_RESOLVE_REPOSITORY_H_
