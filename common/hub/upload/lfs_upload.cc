#include "common/hub/upload/lfs_upload.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/hub/api/url.h"
#include "common/hub/upload/push_failure.h"
#include "common/status_macros.h"

namespace coxswain::hub {
namespace {

using Json = nlohmann::json;

constexpr int kMostExpiries = 3;

}  // namespace

LfsUpload::LfsUpload(const PushPlace& place, PushFile* file, LfsObject object)
    : place_(place), file_(file), object_(std::move(object)) {}

void LfsUpload::Take(LfsAction action) {
  action_ = std::move(action);
  expired_ = false;
  const int64_t part = action_.part_bytes > 0 ? action_.part_bytes : object_.bytes;
  steps_.clear();
  for (int64_t begin = 0; begin < object_.bytes; begin += part) {
    Step step(place_.settings.limits);
    step.begin = begin;
    step.bytes = std::min(part, object_.bytes - begin);
    step.done = action_.there;
    steps_.push_back(std::move(step));
  }
  Step list(place_.settings.limits), verification(place_.settings.limits);
  list.done = action_.there || action_.part_bytes == 0;
  verification.done = action_.there || action_.verify_url.empty();
  steps_.push_back(std::move(list));
  steps_.push_back(std::move(verification));
}

bool LfsUpload::done() const {
  return !expired_ &&
         std::all_of(steps_.begin(), steps_.end(), [](const Step& step) { return step.done; });
}

bool LfsUpload::running() const {
  return std::any_of(steps_.begin(), steps_.end(), [](const Step& step) { return step.running; });
}

int64_t LfsUpload::sent() const {
  int64_t sent = 0;
  for (const Step& step : steps_) sent += step.done ? step.bytes : step.sent;
  return sent;
}

std::optional<size_t> LfsUpload::NextCall(Time now) const {
  if (expired_) return std::nullopt;
  bool before = true;  // what comes before this step is done
  for (size_t i = 0; i < steps_.size(); ++i) {
    const Step& step = steps_[i];
    if (i >= parts() && !before) return std::nullopt;
    if (!step.done && !step.running && step.due <= now) return i;
    before &= step.done;
  }
  return std::nullopt;
}

// The addresses are the Hub's store's, which wants no Content-Type: their signature names none.
HttpCall LfsUpload::PutOf(size_t index) {
  Step& step = steps_[index];
  step.sent = 0;
  HttpBody body{.method = "PUT", .type = "", .bytes = step.bytes};
  body.read = [this, index](int64_t offset, char* to, size_t most) -> absl::StatusOr<size_t> {
    Step& of = steps_[index];
    ASSIGN_OR_RETURN(const size_t read, file_->ReadAt(of.begin + offset, to, most));
    of.sent = offset + static_cast<int64_t>(read);
    return read;
  };
  return {.url = action_.part_urls.empty() ? action_.upload_url : action_.part_urls[index],
          .body = std::move(body)};
}

std::string LfsUpload::PartList() const {
  Json list = Json::array();
  for (size_t i = 0; i < parts(); ++i) {
    list.push_back({{"partNumber", i + 1}, {"etag", steps_[i].etag}});
  }
  return Json{{"oid", object_.oid}, {"parts", std::move(list)}}.dump(
      -1, ' ', false, Json::error_handler_t::replace);
}

HttpCall LfsUpload::CallOf(size_t index) {
  steps_[index].running = true;
  if (index < parts()) return PutOf(index);
  const bool list = index == parts();
  text_ = list ? PartList() : Json{{"oid", object_.oid}, {"size", object_.bytes}}.dump();
  return {.url = list ? action_.upload_url : action_.verify_url,
          .body = TextBody(text_, list ? kLfsType : "application/json")};
}

// The store says by these that the signature of an address is too old, or that it forgot a part.
bool LfsUpload::MayHaveExpired(size_t index, int status) const {
  if (index == parts() + 1) return false;
  return status == 400 || status == 403 || status == 404 || status == 410;
}

absl::Status LfsUpload::Ended(size_t index, const HttpEnd& end, Time now) {
  Step& step = steps_[index];
  step.running = false;
  if (end.ok()) {
    step.etag = end.head.Header("etag");
    step.done = index >= parts() || action_.part_bytes == 0 || !step.etag.empty();
    if (!step.done) {
      return absl::DataLossError(
          absl::StrCat("part ", index + 1, " of ", file_->path(), " was taken without an ETag"));
    }
    if (!done()) return absl::OkStatus();
    file_->Close();
    return file_->CheckUnchanged();
  }
  step.sent = 0;
  if (end.failure.empty() && end.refused.ok() && MayHaveExpired(index, end.head.status)) {
    RETURN_IF_ERROR(file_->CheckUnchanged());
    if (!std::exchange(expired_, true)) ++expiries_;
    if (expiries_ <= kMostExpiries) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrCat(
        PublicUrl(end.head.url), " answers ", end.head.status, " to ", file_->path(), " of ",
        NameOf(place_.repository), ", ", expiries_, " times: the Hub's store does not take it"));
  }
  const std::optional<std::chrono::milliseconds> delay = step.retries.After(end);
  if (!delay) return PushFailureOf(end, place_.settings, place_.repository, file_->path());
  step.due = now + *delay;
  return absl::OkStatus();
}

}  // namespace coxswain::hub
