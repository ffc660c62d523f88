#include "common/faults/failure_kind.h"

namespace coxswain {
namespace {

enum class Work {
  kInput,    // reads what the user gave
  kForm,     // plans and forms a gang
  kCompute,  // trains
  kFiles,    // writes checkpoints and artifacts
};

Work WorkOf(std::string_view phase) {
  for (const std::string_view form : {"plan", "prepare", "connect", "form"}) {
    if (phase == form) return Work::kForm;
  }
  for (const std::string_view compute : {"train", "eval", "snapshot", "stop", "run"}) {
    if (phase == compute) return Work::kCompute;
  }
  for (const std::string_view files : {"tokens", "output", "save_shard", "checkpoint", "export"}) {
    if (phase == files) return Work::kFiles;
  }
  return Work::kInput;
}

// Memory while a gang forms or trains, else room on a file system.
v1::ErrorKind Exhausted(Work work) {
  switch (work) {
    case Work::kForm:
      return v1::ERROR_KIND_HOST;
    case Work::kCompute:
      return v1::ERROR_KIND_SYSTEM;
    case Work::kInput:
    case Work::kFiles:
      break;
  }
  return v1::ERROR_KIND_STORAGE;
}

v1::ErrorKind Unfit(Work work, std::string_view phase) {
  switch (work) {
    case Work::kForm:
      return v1::ERROR_KIND_HOST;
    case Work::kFiles:  // a rank that holds no such snapshot belongs to another gang
      return phase == "save_shard" ? v1::ERROR_KIND_SYSTEM : v1::ERROR_KIND_STORAGE;
    case Work::kInput:
    case Work::kCompute:
      break;
  }
  return v1::ERROR_KIND_USER;
}

// What the Hub refuses, the user mends. A network or a disk mends itself. What else goes wrong
// would go wrong again.
v1::ErrorKind OfHub(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kFailedPrecondition:
      return v1::ERROR_KIND_USER;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kDataLoss:
      return v1::ERROR_KIND_STORAGE;
    default:
      return v1::ERROR_KIND_SYSTEM;
  }
}

}  // namespace

v1::ErrorKind FailureKind(absl::StatusCode code, std::string_view phase) {
  if (phase == "fetch" || phase == "push") return OfHub(code);
  const Work work = WorkOf(phase);
  switch (code) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kUnimplemented:
      return v1::ERROR_KIND_USER;
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kAlreadyExists:
      return v1::ERROR_KIND_STORAGE;
    case absl::StatusCode::kDataLoss:
      return work == Work::kCompute ? v1::ERROR_KIND_SYSTEM : v1::ERROR_KIND_STORAGE;
    case absl::StatusCode::kResourceExhausted:
      return Exhausted(work);
    case absl::StatusCode::kFailedPrecondition:
      return Unfit(work, phase);
    default:
      return v1::ERROR_KIND_SYSTEM;
  }
}

const char* FailureName(v1::ErrorKind kind) {
  switch (kind) {
    case v1::ERROR_KIND_USER:
      return "user";
    case v1::ERROR_KIND_STORAGE:
      return "storage";
    case v1::ERROR_KIND_HOST:
      return "host";
    case v1::ERROR_KIND_BUG:
      return "bug";
    default:
      return "system";
  }
}

const char* FailureSubject(v1::ErrorKind kind) {
  switch (kind) {
    case v1::ERROR_KIND_USER:
      return "job, data or model";
    case v1::ERROR_KIND_STORAGE:
      return "storage";
    case v1::ERROR_KIND_HOST:
      return "machines of the gang";
    case v1::ERROR_KIND_BUG:
      return "bug or corruption";
    default:
      return "system";
  }
}

}  // namespace coxswain
