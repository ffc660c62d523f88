// A download as a line of text.
#ifndef COXSWAIN_CONTROLLER_CLI_TEXT_DOWNLOAD_LINE_H_
#define COXSWAIN_CONTROLLER_CLI_TEXT_DOWNLOAD_LINE_H_

#include <string>

#include "common/hub/download_options.h"
#include "coxswain/v1/job.pb.h"

namespace coxswain::cli {

// "org/tiny 50% 494.0 MiB/988.0 MiB 112.0 MiB/s 4s left".
std::string DownloadText(const std::string& name, const hub::Progress& progress);

// "org/tiny [###   ] 50% 494.0 MiB/988.0 MiB 112.0 MiB/s 4s left": at most `columns` columns; the
// bar gives way first, and without it the end.
std::string DownloadLine(const std::string& name, const hub::Progress& progress, int columns);

// What a job tells of its download.
hub::Progress ProgressOf(const v1::Fetching& fetching);

}  // namespace coxswain::cli

#endif  // COXSWAIN_CONTROLLER_CLI_TEXT_DOWNLOAD_LINE_H_
