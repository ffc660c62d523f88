// Requests of all services. An input is one call or several: a byte that picks the RPC, two bytes
// of length, low one first, and so many bytes of message; the last may be cut short.
#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <string_view>

#include <google/protobuf/stubs/logging.h>

#include "common/logging.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/rpc/calls.h"

namespace coxswain::fuzz {
namespace {

// How many there are of each is known without what they serve, which is made on first use.
struct Service {
  size_t count;
  std::unique_ptr<Calls> (*make)();
};
constexpr std::array<Service, 3> kServices = {
    {{26, ControllerCalls}, {9, WorkerCalls}, {3, RelayCalls}}};

class Input {
 public:
  void Play(size_t method, std::string_view message) {
    for (size_t i = 0; i < kServices.size(); ++i) {
      if (method < kServices[i].count) {
        if (calls_[i] == nullptr) calls_[i] = kServices[i].make();
        Expect(calls_[i]->count() == kServices[i].count, "every RPC is in the table");
        return calls_[i]->Play(method, message);
      }
      method -= kServices[i].count;
    }
  }

 private:
  std::array<std::unique_ptr<Calls>, kServices.size()> calls_;
};

}  // namespace
}  // namespace coxswain::fuzz

namespace coxswain {

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const bool quiet = [] {
    log::Init("fuzz", log::Level::kError);
    google::protobuf::SetLogHandler(nullptr);  // of what does not parse
    return true;
  }();
  (void)quiet;
  constexpr size_t kMostCalls = 8;
  size_t methods = 0;
  for (const fuzz::Service& service : fuzz::kServices) methods += service.count;
  fuzz::Input input;
  std::string_view rest = fuzz::TextOf(data, size);
  for (size_t i = 0; i < kMostCalls && !rest.empty(); ++i) {
    const auto byte = [&](size_t at) {
      return at < rest.size() ? static_cast<size_t>(static_cast<unsigned char>(rest[at])) : 0;
    };
    const size_t method = byte(0) % methods, length = byte(1) + 256 * byte(2);
    rest.remove_prefix(std::min<size_t>(3, rest.size()));
    input.Play(method, rest.substr(0, length));
    rest.remove_prefix(std::min(length, rest.size()));
  }
  return 0;
}

}  // namespace coxswain
