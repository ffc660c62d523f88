// Invariant api-7: a table of requests that no operation was written for.
#include "controller/api/arguments.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

namespace coxswain::api {
namespace {

constexpr int32_t kLeast32 = std::numeric_limits<int32_t>::min();
constexpr int32_t kMost32 = std::numeric_limits<int32_t>::max();
constexpr int64_t kLeast64 = std::numeric_limits<int64_t>::min();
constexpr int64_t kMost64 = std::numeric_limits<int64_t>::max();

// The message names `field` and `value`.
template <typename Request>
void ExpectRefused(const Request& request, const std::string& field,
                   const std::string& value = "") {
  const absl::Status status = CheckArguments(request);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << request.DebugString();
  EXPECT_NE(status.message().find(field), absl::string_view::npos) << status;
  EXPECT_NE(status.message().find(value), absl::string_view::npos) << status;
}

template <typename Request>
class JobReferenceTest : public testing::Test {};
using NamingAJob =
    testing::Types<v1::GetRequest, v1::WatchRequest, v1::LogsRequest, v1::CancelRequest,
                   v1::PauseRequest, v1::ResumeRequest, v1::InspectRequest, v1::ExplainRequest,
                   v1::ListArtifactsRequest, v1::DumpRequest, v1::DeleteRequest>;
TYPED_TEST_SUITE(JobReferenceTest, NamingAJob);

TYPED_TEST(JobReferenceTest, IsNeededBoundedAndPrintable) {
  TypeParam request;
  ExpectRefused(request, "job is empty");
  request.set_job(std::string(257, 'x'));
  ExpectRefused(request, "job has 257 bytes");
  request.set_job("a\x1b[2J");
  ExpectRefused(request, "job is 'a\\x1b[2J'");
  request.set_job("two\nlines");
  ExpectRefused(request, "job");
  request.set_job("gsm8k-3f2a91");
  EXPECT_TRUE(CheckArguments(request).ok());
}

TEST(ArgumentsTest, WhatIsCordonedIsNamedAndTheReasonIsOneLine) {
  v1::CordonRequest cordon;
  ExpectRefused(cordon, "target is empty");
  ExpectRefused(v1::UncordonRequest(), "target is empty");
  cordon.set_target("host/0");
  EXPECT_TRUE(CheckArguments(cordon).ok());
  cordon.set_reason("two\nlines");
  ExpectRefused(cordon, "reason");
}

TEST(ArgumentsTest, NumbersOfStreamsAreInRange) {
  v1::LogsRequest logs;
  logs.set_job("j");
  logs.set_rank(-1);
  for (const int32_t tail : {-1, kLeast32}) {
    logs.set_tail(tail);
    ExpectRefused(logs, "tail", std::to_string(tail));
  }
  logs.set_tail(kMost32);  // the newest of as many as there are
  EXPECT_TRUE(CheckArguments(logs).ok());
  for (const int32_t rank : {-2, kLeast32}) {
    logs.set_rank(rank);
    ExpectRefused(logs, "rank", std::to_string(rank));
  }
  v1::WatchRequest watch;
  watch.set_job("j");
  for (const int64_t after : {int64_t{-1}, kLeast64}) {
    watch.set_after_event_id(after);
    ExpectRefused(watch, "after_event_id", std::to_string(after));
  }
  watch.set_after_event_id(kMost64);
  EXPECT_TRUE(CheckArguments(watch).ok());
  v1::InspectRequest inspect;
  inspect.set_job("j");
  for (const int64_t interval : {int64_t{-1}, kLeast64, kMost64, int64_t{86'400'001}}) {
    inspect.set_interval_ms(interval);
    ExpectRefused(inspect, "interval_ms", std::to_string(interval));
  }
}

TEST(ArgumentsTest, StepsToResumeForAreACount) {
  v1::ResumeRequest resume;
  resume.set_job("j");
  for (const int64_t steps : {int64_t{-1}, kLeast64, kMost64}) {
    resume.set_steps(steps);
    ExpectRefused(resume, "steps", std::to_string(steps));
  }
  resume.set_steps(0);
  EXPECT_TRUE(CheckArguments(resume).ok());
}

TEST(ArgumentsTest, TextsOfAJobFileAreBoundedAndPrintable) {
  v1::SubmitRequest submit;
  submit.set_idempotency_key(std::string(257, 'k'));
  ExpectRefused(submit, "idempotency_key", "257");
  submit.set_idempotency_key(std::string("k\0", 2));
  ExpectRefused(submit, "idempotency_key", "k\\x00");
  submit.set_idempotency_key("");
  submit.set_yaml_path(std::string("/jobs\0/job.yaml", 15));
  ExpectRefused(submit, "yaml_path", "/jobs\\x00/job.yaml");
  v1::ValidateRequest validate;
  validate.set_yaml_path(std::string(5000, '/'));
  ExpectRefused(validate, "yaml_path", "5000");
  v1::PlanRequest plan;
  plan.set_yaml_path("/a\nb");
  ExpectRefused(plan, "yaml_path");
  v1::FetchRequest fetch;
  fetch.set_job("j");
  ExpectRefused(fetch, "name is empty");
}

TEST(ArgumentsTest, LabelsAreKeyValuePairsAndNotMany) {
  for (const std::string label : {"", "team", "=x"}) {
    v1::ListRequest list;
    list.add_labels(label);
    ExpectRefused(list, "label", "'" + label + "'");
  }
  v1::ListRequest many;
  for (int i = 0; i < 65; ++i) many.add_labels("a=b");
  ExpectRefused(many, "labels", "65");
}

v1::RegisterRequest Hello() {
  v1::RegisterRequest hello;
  hello.set_incarnation("i");
  hello.set_address("127.0.0.1:1");
  hello.set_host("h");
  hello.mutable_build()->set_device("cpu");
  return hello;
}

TEST(ArgumentsTest, AWorkersNumbersAreThoseOfAMachine) {
  EXPECT_TRUE(CheckArguments(Hello()).ok()) << CheckArguments(Hello());
  using Set = void (v1::RegisterRequest::*)(int32_t);
  const std::pair<const char*, Set> fields[] = {
      {"slot", &v1::RegisterRequest::set_slot},
      {"gpu", &v1::RegisterRequest::set_gpu},
      {"numa_node", &v1::RegisterRequest::set_numa_node},
      {"threads", &v1::RegisterRequest::set_threads},
      {"compute_capability", &v1::RegisterRequest::set_compute_capability}};
  for (const auto& [name, set] : fields) {
    for (const int32_t value : {-1, kLeast32, kMost32}) {
      v1::RegisterRequest hello = Hello();
      (hello.*set)(value);
      ExpectRefused(hello, name, std::to_string(value));
    }
  }
  for (const double rate : {-1.0, 1e21, std::numeric_limits<double>::quiet_NaN(),
                            std::numeric_limits<double>::infinity()}) {
    v1::RegisterRequest hello = Hello();
    hello.set_product_flops_per_second(rate);
    ExpectRefused(hello, "product_flops_per_second");
    hello = Hello();
    hello.set_copy_bytes_per_second(rate);
    ExpectRefused(hello, "copy_bytes_per_second");
  }
  v1::RegisterRequest hello = Hello();
  hello.set_memory_bytes(std::numeric_limits<uint64_t>::max());
  ExpectRefused(hello, "memory_bytes");
  hello = Hello();
  hello.set_pid(-1);
  ExpectRefused(hello, "pid", "-1");
}

TEST(ArgumentsTest, AWorkersNamesArePrintableAndItsAddressesCanBeDialled) {
  const auto with = [](const auto& change) {
    v1::RegisterRequest hello = Hello();
    change(&hello);
    return hello;
  };
  ExpectRefused(with([](auto* hello) { hello->clear_incarnation(); }), "incarnation is empty");
  ExpectRefused(with([](auto* hello) { hello->clear_host(); }), "host is empty");
  ExpectRefused(with([](auto* hello) { hello->set_host("h\x1b]0;"); }), "host", "h\\x1b]0;");
  ExpectRefused(with([](auto* hello) { hello->set_host(std::string(300, 'h')); }), "host", "300");
  ExpectRefused(with([](auto* hello) { hello->set_address("here"); }), "here");
  ExpectRefused(with([](auto* hello) { hello->set_relay_address("h:99999"); }), "h:99999");
  ExpectRefused(with([](auto* hello) { hello->mutable_build()->set_device("tpu"); }),
                "build.device", "tpu");
  ExpectRefused(
      with([](auto* hello) { hello->mutable_current()->set_plan_hash(std::string(99, 'x')); }),
      "current.plan_hash", "99");
}

TEST(ArgumentsTest, AHeartbeatTellsSaneTimes) {
  v1::HeartbeatRequest beat;
  ExpectRefused(beat, "incarnation is empty");
  beat.set_incarnation("i");
  EXPECT_TRUE(CheckArguments(beat).ok());
  for (const int64_t ms : {int64_t{-1}, kLeast64, kMost64}) {
    beat.mutable_collectives()->set_in_it_ms(ms);
    ExpectRefused(beat, "in_it_ms", std::to_string(ms));
  }
}

TEST(ArgumentsTest, WhatAsksForNothingIsFine) {
  EXPECT_TRUE(CheckArguments(v1::ListRequest()).ok());
  EXPECT_TRUE(CheckArguments(v1::ListWorkersRequest()).ok());
  EXPECT_TRUE(CheckArguments(v1::VersionRequest()).ok());
}

}  // namespace
}  // namespace coxswain::api
