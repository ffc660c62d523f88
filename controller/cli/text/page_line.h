// Where a job's status page is, for people.
#ifndef COXSWAIN_CONTROLLER_CLI_TEXT_PAGE_LINE_H_
#define COXSWAIN_CONTROLLER_CLI_TEXT_PAGE_LINE_H_

#include <string>

#include "coxswain/v1/job.pb.h"

namespace coxswain::cli {

// "status page: http://10.0.0.7:7071/jobs/tiny-1". `server`: host:port by which the controller is
// reached; its host stands in place of one that means every interface. A page that only the
// controller's own machine can open is said to be there. Empty: the controller serves no page.
std::string PageLine(const v1::Job& job, const std::string& server);

}  // namespace coxswain::cli

#endif  // COXSWAIN_CONTROLLER_CLI_TEXT_PAGE_LINE_H_
