// Whose failure an error is, from our own phase and its code: controller and workers ask the same
// function. See ARCHITECTURE.md, "Whose failure it is".
#ifndef COXSWAIN_COMMON_FAULTS_FAILURE_KIND_H_
#define COXSWAIN_COMMON_FAULTS_FAILURE_KIND_H_

#include <string_view>

#include "absl/status/status.h"
#include "coxswain/v1/common.pb.h"

namespace coxswain {

// `phase` is that of v1::Error: "prepare_data", "tokens" (the token cache), "resume", "plan",
// "fetch" (a download), "output", "prepare", "connect", "form", "train", "eval", "snapshot",
// "save_shard", "checkpoint", "export", "push" (to the Hub); another, or none, is taken for work on
// what the user gave.
//   USER     the job, its data or its model is wrong, or its training does not work
//   STORAGE  a file or a file system is full, read-only, damaged or away
//   HOST     while a gang is planned or formed: these machines do not fit the job
//   SYSTEM   all else: a process, a network, a message for a gang that has ended
// No code tells a bug: who finds what cannot be says ERROR_KIND_BUG itself. A job that never
// trained has no gang that once worked: its controller takes STORAGE and HOST for the user's
// (controller/failure/policy.h).
v1::ErrorKind FailureKind(absl::StatusCode code, std::string_view phase);

const char* FailureName(v1::ErrorKind kind);     // "user", "system", "storage", "host", "bug"
const char* FailureSubject(v1::ErrorKind kind);  // for people: "job, data or model", ...

}  // namespace coxswain

#endif  // COXSWAIN_COMMON_FAULTS_FAILURE_KIND_H_
