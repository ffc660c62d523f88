// Which files a dataset of a job is: its path may name a file, a folder or a glob.
#ifndef COXSWAIN_CONTROLLER_DATA_SOURCES_DATASET_FILES_H_
#define COXSWAIN_CONTROLLER_DATA_SOURCES_DATASET_FILES_H_

#include "absl/status/statusor.h"
#include "common/config/job_spec.h"
#include "controller/data/dataset_parts.h"

namespace coxswain::data {

// Of a dataset of the Hub: FilesOfSnapshot. Of others:
//
// A path that is no folder and matches as no glob is taken as it is: opening it says what is wrong.
// Of a folder those files are taken whose names are of data (file_kind.h), sorted by name, without
// hidden ones and the metadata of Hugging Face's datasets. A folder without such files stands for
// its folder `data`, or those named like the splits. A file is of a split when its name begins with
// it, or its folder bears it; a single file is train, and files that are named one by one are where
// none is of it. InvalidArgument, naming the path: nothing is
// there, matches or is of the split; the split is no expression (dataset_parts.h); a folder
// holds data of several kinds; an entry of data_files leaves the folder.
absl::StatusOr<DatasetFiles> ListDatasetFiles(const config::DatasetSpec& dataset);

}  // namespace coxswain::data

#endif  // COXSWAIN_CONTROLLER_DATA_SOURCES_DATASET_FILES_H_
