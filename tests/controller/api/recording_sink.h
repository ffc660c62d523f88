// The receiving end of a streaming operation, without gRPC.
#ifndef COXSWAIN_TESTS_CONTROLLER_API_RECORDING_SINK_H_
#define COXSWAIN_TESTS_CONTROLLER_API_RECORDING_SINK_H_

#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "controller/api/context.h"

namespace coxswain::api {

template <typename Response>
class RecordingSink : public Sink<Response> {
 public:
  void Send(const Response& response) override {
    if (open()) received.push_back(response);
  }
  void Finish(const absl::Status& end) override {
    if (!status) status = end;
  }
  bool open() const override { return !status.has_value() && !cancelled; }
  size_t pending() const override { return 0; }
  void OnRoom(std::function<void()> callback) override { room = std::move(callback); }

  std::vector<Response> received;
  std::optional<absl::Status> status;
  bool cancelled = false;
  std::function<void()> room;
};

}  // namespace coxswain::api

#endif  // COXSWAIN_TESTS_CONTROLLER_API_RECORDING_SINK_H_
