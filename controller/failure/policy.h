// What a failure means for its job. Pure: no clock, no I/O. The table:
// controller/failure/README.md.
#ifndef COXSWAIN_CONTROLLER_FAILURE_POLICY_H_
#define COXSWAIN_CONTROLLER_FAILURE_POLICY_H_

#include <chrono>
#include <cstdint>
#include <string>

#include "coxswain/v1/common.pb.h"

namespace coxswain::failure {

// The facts about a job when something of it fails.
struct JobFacts {
  bool has_trained = false;  // a gang of it trained once, or it has a committed checkpoint
  bool draining = false;
  int32_t restarts = 0;                   // in its life
  int32_t restarts_since_checkpoint = 0;  // that was further than any before
  int64_t max_restarts = 0;               // of the latter
  int64_t max_restarts_total = 0;         // of the former
  int held_up = 0;                        // times in a row that it waited for storage or machines
  bool set_aside = false;  // the checkpoint that it began from is damaged, the one before is next
  bool asked_to_stop = false;  // a user ended the gang, and the job should continue
};

enum class Course {
  kEnds,        // the job fails
  kTriesAgain,  // it costs a restart, or the drain its checkpoint
  kWaits,       // for storage, machines or nothing; costs no restart
};

struct Verdict {
  Course course = Course::kEnds;
  v1::Error error;                   // as the job tells it
  std::chrono::milliseconds wait{};  // until the next try
  std::string reason;                // of the change of the job's state
};

// True for an error of storage or machines: it passes by itself, and the job is not its cause.
bool IsWaitedOut(const v1::Error& error);
// True when the error does not explain itself, so that a dump of the ranks helps.
bool NeedsDump(const v1::Error& error);

// The error as it concerns this job. If no gang of it has ever trained, errors of storage and
// machines become the user's, who must correct them. Exceptions: a full or broken disk, the
// controller's own store and token cache, and a download.
v1::Error Whose(v1::Error found, const JobFacts& facts);

// Judges the failure of an attempt to form and run a gang.
Verdict JudgeAttempt(const v1::Error& found, const JobFacts& facts);
// Judges the failure of a preparation; no gang ran.
Verdict JudgePreparation(const v1::Error& found, const JobFacts& facts);
// Judges the failure of an export; all steps are done, and only the files are made again.
Verdict JudgeExport(const v1::Error& found, const JobFacts& facts);

struct SaveFacts {
  bool is_best = false;    // early stopping will export it
  bool is_last = false;    // nothing is trained after it
  bool cancelled = false;  // the job is, and needs it no more
};
// True when a failed save costs the job only that checkpoint. False: its attempt failed.
bool CostsOnlyTheCheckpoint(const v1::Error& error, const SaveFacts& facts);

}  // namespace coxswain::failure

#endif  // COXSWAIN_CONTROLLER_FAILURE_POLICY_H_
