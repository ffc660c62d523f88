// One line for people: a download, where a job's status page is.
#ifndef COXSWAIN_CONTROLLER_CLI_TEXT_STATUS_LINE_H_
#define COXSWAIN_CONTROLLER_CLI_TEXT_STATUS_LINE_H_

#include <string>

#include "common/hub/download_options.h"
#include "coxswain/v1/job.pb.h"

namespace coxswain::cli {

// A download as a line of text.

// "org/tiny 50% 494.0 MiB/988.0 MiB 112.0 MiB/s 4s left".
std::string DownloadText(const std::string& name, const hub::Progress& progress);

// "org/tiny [###   ] 50% 494.0 MiB/988.0 MiB 112.0 MiB/s 4s left": at most `columns` columns; the
// bar gives way first, and without it the end.
std::string DownloadLine(const std::string& name, const hub::Progress& progress, int columns);

// What a job tells of its download.
hub::Progress ProgressOf(const v1::Fetching& fetching);

// Where a job's status page is, for people.

// "status page: http://10.0.0.7:7071/jobs/tiny-1". `server`: host:port by which the controller is
// reached; its host stands in place of one that means every interface. A page that only the
// controller's own machine can open is said to be there. Empty: the controller serves no page.
std::string PageLine(const v1::Job& job, const std::string& server);

}  // namespace coxswain::cli

#endif  // COXSWAIN_CONTROLLER_CLI_TEXT_STATUS_LINE_H_
