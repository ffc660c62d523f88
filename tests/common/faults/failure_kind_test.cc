#include "common/faults/failure_kind.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "common/posix_status.h"

namespace coxswain {
namespace {

using Code = absl::StatusCode;

struct Row {
  Code code;
  const char* phase;
  v1::ErrorKind kind;
};

TEST(FailureKindTest, PhaseAndCodeDecide) {
  const Row table[] = {
      {Code::kInvalidArgument, "prepare", v1::ERROR_KIND_USER},
      {Code::kUnimplemented, "plan", v1::ERROR_KIND_USER},
      {Code::kFailedPrecondition, "train", v1::ERROR_KIND_USER},  // self-verification
      {Code::kFailedPrecondition, "resume", v1::ERROR_KIND_USER},
      {Code::kNotFound, "prepare_data", v1::ERROR_KIND_STORAGE},
      {Code::kNotFound, "prepare", v1::ERROR_KIND_STORAGE},
      {Code::kPermissionDenied, "save_shard", v1::ERROR_KIND_STORAGE},
      {Code::kResourceExhausted, "save_shard", v1::ERROR_KIND_STORAGE},
      {Code::kResourceExhausted, "output", v1::ERROR_KIND_STORAGE},
      {Code::kResourceExhausted, "export", v1::ERROR_KIND_STORAGE},
      {Code::kAlreadyExists, "checkpoint", v1::ERROR_KIND_STORAGE},
      {Code::kDataLoss, "checkpoint", v1::ERROR_KIND_STORAGE},
      {Code::kResourceExhausted, "prepare", v1::ERROR_KIND_HOST},
      {Code::kFailedPrecondition, "prepare", v1::ERROR_KIND_HOST},
      {Code::kFailedPrecondition, "connect", v1::ERROR_KIND_HOST},
      {Code::kResourceExhausted, "train", v1::ERROR_KIND_SYSTEM},
      {Code::kFailedPrecondition, "save_shard", v1::ERROR_KIND_SYSTEM},
      {Code::kDataLoss, "train", v1::ERROR_KIND_SYSTEM},
      {Code::kAborted, "prepare", v1::ERROR_KIND_SYSTEM},
      {Code::kUnavailable, "save_shard", v1::ERROR_KIND_SYSTEM},
      {Code::kInternal, "train", v1::ERROR_KIND_SYSTEM},
      {Code::kFailedPrecondition, "", v1::ERROR_KIND_USER},
      {Code::kPermissionDenied, "push", v1::ERROR_KIND_USER},
      {Code::kUnauthenticated, "push", v1::ERROR_KIND_USER},
      {Code::kNotFound, "push", v1::ERROR_KIND_USER},
      {Code::kFailedPrecondition, "push", v1::ERROR_KIND_USER},
      {Code::kUnavailable, "push", v1::ERROR_KIND_STORAGE},
      {Code::kAborted, "push", v1::ERROR_KIND_STORAGE},
      {Code::kUnknown, "push", v1::ERROR_KIND_SYSTEM},
      {Code::kUnavailable, "fetch", v1::ERROR_KIND_STORAGE},
      {Code::kResourceExhausted, "fetch", v1::ERROR_KIND_STORAGE},
      {Code::kDataLoss, "fetch", v1::ERROR_KIND_STORAGE},
      {Code::kUnauthenticated, "fetch", v1::ERROR_KIND_USER},
      {Code::kNotFound, "fetch", v1::ERROR_KIND_USER},
      {Code::kUnknown, "fetch", v1::ERROR_KIND_SYSTEM},
      {Code::kInternal, "fetch", v1::ERROR_KIND_SYSTEM},
  };
  for (const Row& row : table) {
    EXPECT_EQ(FailureKind(row.code, row.phase), row.kind)
        << absl::StatusCodeToString(row.code) << " in " << row.phase;
  }
}

TEST(FailureKindTest, WhatHappensToFileSystemsIsStorageWhereFilesAreReadAndWritten) {
  for (const int error : {ENOSPC, EDQUOT, EROFS, EACCES, EPERM, ENOENT, ENOTDIR, ESTALE, EIO,
                          ENODEV, ENXIO, ENOTCONN, ETIMEDOUT, EHOSTDOWN}) {
    const absl::Status status = ErrnoStatus(error, "write", "/out/rank-0.safetensors");
    for (const char* phase : {"output", "save_shard", "checkpoint", "export"}) {
      EXPECT_EQ(FailureKind(status.code(), phase), v1::ERROR_KIND_STORAGE) << phase << status;
    }
    if (error == ENOSPC || error == EDQUOT) continue;  // nothing is written while a gang forms
    EXPECT_EQ(FailureKind(status.code(), "prepare"), v1::ERROR_KIND_STORAGE) << status;
  }
}

TEST(FailureKindTest, EveryKindHasAName) {
  EXPECT_STREQ(FailureName(v1::ERROR_KIND_USER), "user");
  EXPECT_STREQ(FailureName(v1::ERROR_KIND_SYSTEM), "system");
  EXPECT_STREQ(FailureName(v1::ERROR_KIND_STORAGE), "storage");
  EXPECT_STREQ(FailureName(v1::ERROR_KIND_HOST), "host");
  EXPECT_STREQ(FailureName(v1::ERROR_KIND_BUG), "bug");
}

}  // namespace
}  // namespace coxswain
