#include "controller/data/sources/sampling.h"

#include <cmath>
#include <compare>
#include <limits>
#include <queue>
#include <tuple>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/philox.h"
#include "common/status_macros.h"
#include "controller/data/sources/dataset_reader.h"

namespace coxswain::data {
namespace {

uint64_t Draw(uint64_t seed, RandomPurpose purpose, RecordId record) {
  const auto bits = Philox4x32({static_cast<uint32_t>(record.index),
                                static_cast<uint32_t>(static_cast<uint64_t>(record.index) >> 32),
                                static_cast<uint32_t>(record.source), 0},
                               PhiloxKey(seed, purpose));
  return (uint64_t{bits[0]} << 32) | bits[1];
}

}  // namespace

int64_t CopiesOf(uint64_t seed, RecordId record, double weight) {
  const double whole = std::floor(weight);
  const uint64_t bits = Draw(seed, RandomPurpose::kWeightCopies, record);
  const double uniform = static_cast<double>(bits >> 11) * 0x1p-53;
  return static_cast<int64_t>(whole) + (uniform < weight - whole ? 1 : 0);
}

uint64_t HoldBackDraw(uint64_t seed, RecordId record) {
  return Draw(seed, RandomPurpose::kValSplit, record);
}

namespace {

using Key = std::tuple<uint64_t, int32_t, int64_t>;  // draw, source, index

constexpr int64_t kAskEvery = 4096;  // records

}  // namespace

absl::StatusOr<ValSplit> ValSplit::Create(const config::JobSpec& job, const Cancelled& cancelled) {
  ValSplit split;
  split.seed_ = job.train.seed;
  if (!job.val_set_size || *job.val_set_size <= 0) return split;
  split.any_ = true;
  if (*job.val_set_size < 1) {
    split.last_draw_ = static_cast<uint64_t>(std::ldexp(*job.val_set_size, 64));
    split.last_ = {-1, -1};  // draws below last_draw_ only
    return split;
  }
  const size_t count = static_cast<size_t>(*job.val_set_size);
  std::priority_queue<Key> smallest;
  int64_t records = 0;
  for (size_t source = 0; source < job.datasets.size(); ++source) {
    ASSIGN_OR_RETURN(auto reader, DatasetReader::Open(job.datasets[source]));
    RawRecord raw;
    for (RecordId id = {static_cast<int32_t>(source), 0};; ++id.index, ++records) {
      ASSIGN_OR_RETURN(bool more, reader->Next(&raw));
      if (!more) break;
      if (records % kAskEvery == 0) RETURN_IF_ERROR(CheckCancelled(cancelled));
      smallest.emplace(HoldBackDraw(split.seed_, id), id.source, id.index);
      if (smallest.size() > count) smallest.pop();
    }
  }
  if (records <= static_cast<int64_t>(count)) {
    return absl::InvalidArgumentError(absl::StrCat("val_set_size ", count, " leaves nothing of ",
                                                   records, " records to train on"));
  }
  split.last_draw_ = std::get<0>(smallest.top());
  split.last_ = {std::get<1>(smallest.top()), std::get<2>(smallest.top())};
  return split;
}

bool ValSplit::HoldsBack(RecordId record) const {
  if (!any_) return false;
  return Key(HoldBackDraw(seed_, record), record.source, record.index) <=
         Key(last_draw_, last_.source, last_.index);
}

}  // namespace coxswain::data
