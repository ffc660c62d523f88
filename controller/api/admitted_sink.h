// The receiving end of a stream whose caller may lose the right to it while it is open.
#ifndef COXSWAIN_CONTROLLER_API_ADMITTED_SINK_H_
#define COXSWAIN_CONTROLLER_API_ADMITTED_SINK_H_

#include <chrono>
#include <functional>
#include <memory>
#include <utility>

#include "controller/api/admission.h"
#include "controller/api/context.h"
#include "controller/api/hidden_jobs.h"

namespace coxswain::api {

// Ends the stream within kPeriod of the end of its caller's token; hides what a user is not told.
// `admission` has entered. Loop thread only.
template <typename Response>
class AdmittedSink : public Sink<Response>,
                     public std::enable_shared_from_this<AdmittedSink<Response>> {
 public:
  static constexpr std::chrono::seconds kPeriod{1};

  AdmittedSink(Context* context, std::shared_ptr<Admission> admission,
               std::shared_ptr<Sink<Response>> stream)
      : context_(context), admission_(std::move(admission)), stream_(std::move(stream)) {}

  // Once, after the caller has entered.
  void Check() {
    if (!stream_->open()) return;
    if (const absl::Status status = admission_->Again(); !status.ok()) {
      stream_->Finish(status);
      return;
    }
    context_->deps.loop->After(kPeriod, [weak = this->weak_from_this()] {
      if (const auto self = weak.lock()) self->Check();
    });
  }

  void Send(const Response& response) override {
    if (admission_->principal().role != access::Role::kUser) {
      stream_->Send(response);
      return;
    }
    Response shown = response;
    HideJobsOf(*context_, admission_->principal(), &shown);
    stream_->Send(shown);
  }
  void Finish(const absl::Status& status) override {
    stream_->Finish(HideJobs(*context_, admission_->principal(), status));
  }
  bool open() const override { return stream_->open(); }
  size_t pending() const override { return stream_->pending(); }
  void OnRoom(std::function<void()> callback) override { stream_->OnRoom(std::move(callback)); }

 private:
  Context* const context_;
  const std::shared_ptr<Admission> admission_;
  const std::shared_ptr<Sink<Response>> stream_;
};

}  // namespace coxswain::api

#endif  // COXSWAIN_CONTROLLER_API_ADMITTED_SINK_H_
