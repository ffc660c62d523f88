// What is known of a folder of an export, or of its GGUF files: whether they were read back and
// compared with the trained state.
#ifndef COXSWAIN_CONTROLLER_FOLDERS_VERIFICATION_H_
#define COXSWAIN_CONTROLLER_FOLDERS_VERIFICATION_H_

#include <cstdint>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "coxswain/v1/job.pb.h"

namespace coxswain {

struct Verification {
  std::string artifact;         // "adapter" | "model" | "gguf"
  bool verified = false;        // it was compared, and within the bound
  std::string reason = {};      // why it was not compared; empty where it is verified
  int64_t records = 0;          // compared
  int64_t targets = 0;          // of these
  double difference = 0;        // of the record that differs most: nats per target, of scores loss
  double bound = 0;             // of that; 0: equal bits
  std::string bound_from = {};  // what it follows from, for people
  double seconds = 0;           // that the comparison took
  bool operator==(const Verification&) const = default;
};

// The key "verification" of a manifest, and under it "gguf", of the folder's GGUF files. What has
// no `artifact` is not there: nothing is added.
void AddVerification(const Verification& folder, const Verification& gguf,
                     nlohmann::json* manifest);

v1::Verification ToWire(const Verification& verification);

// One line for people: "adapter verified on 8 records (412 targets): largest difference 0, bound 0,
// equal bits ...", or "model skipped: ...".
std::string VerificationText(const v1::Verification& verification);

}  // namespace coxswain

#endif  // COXSWAIN_CONTROLLER_FOLDERS_VERIFICATION_H_
