// What preference tuning reports of a step or an evaluation, for people.
#ifndef COXSWAIN_CONTROLLER_CLI_TEXT_PREFERENCE_TEXT_H_
#define COXSWAIN_CONTROLLER_CLI_TEXT_PREFERENCE_TEXT_H_

#include <string>

#include "coxswain/v1/common.pb.h"

namespace coxswain::cli {

// "margin +0.5312, accuracy 87.5 %": how far the chosen reward is above the rejected one, and how
// often. Of records, which have no pairs, the margin alone; of labels the accuracy; of numbers
// "mean +0.5312, of the records +0.6000". Without a newline.
std::string MarginText(const v1::Preference& preference);

// A line with rewards and log-probabilities of both sides, with a newline.
std::string PreferenceText(const v1::Preference& preference);

}  // namespace coxswain::cli

#endif  // COXSWAIN_CONTROLLER_CLI_TEXT_PREFERENCE_TEXT_H_
