// What people are told of the verification of an export.
#ifndef COXSWAIN_CONTROLLER_CLI_TEXT_VERIFICATION_TEXT_H_
#define COXSWAIN_CONTROLLER_CLI_TEXT_VERIFICATION_TEXT_H_

#include <string>

#include "coxswain/v1/job.pb.h"

namespace coxswain::cli {

// "adapter on 8 records, largest difference 0, bound 0; model skipped: ..."; empty: nothing is
// known. Text of other processes is on one line.
std::string VerificationsText(const v1::Job& job);

}  // namespace coxswain::cli

#endif  // COXSWAIN_CONTROLLER_CLI_TEXT_VERIFICATION_TEXT_H_
