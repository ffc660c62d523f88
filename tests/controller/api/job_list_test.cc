// Ids of jobs, and the list of them.
#include <algorithm>
#include <string>
#include <vector>

#include "tests/controller/api/operations_fixture.h"

namespace coxswain::api {
namespace {

// Invariant store-7.
TEST_F(OperationsTest, AnIdThatIsTakenIsDrawnAgain) {
  std::vector<std::string> drawn = {"00", "00", "00", "01", "01", "02"};
  context_.draw_job_hex = [&] {
    const std::string hex = drawn.empty() ? "00" : drawn.front();
    if (!drawn.empty()) drawn.erase(drawn.begin());
    return hex;
  };
  v1::SubmitRequest first = SubmitOf("a", "one");
  first.set_start_paused(true);
  EXPECT_EQ(Call(Submit, first)->id(), "a-00");
  v1::SubmitRequest second = first;  // of the same name
  second.set_yaml(sim::JobYaml({.name = "a", .steps = 7, .output_dir = "/out/other"}));
  second.set_idempotency_key("two");
  EXPECT_EQ(Call(Submit, second)->id(), "a-01");
  v1::SubmitRequest third = second;
  third.set_yaml(sim::JobYaml({.name = "a", .steps = 8, .output_dir = "/out/third"}));
  third.set_idempotency_key("three");
  EXPECT_EQ(Call(Submit, third)->id(), "a-02");
  const auto rows = *sim_.store().Jobs();
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].job.yaml(), first.yaml());
  EXPECT_EQ(rows[1].job.yaml(), second.yaml());
  EXPECT_EQ(sim_.Events("a-00", "Submitted").size(), 1u);
  EXPECT_EQ(Call(Submit, second)->id(), "a-01");  // with its key, as ever
  v1::SubmitRequest unlucky = third;
  unlucky.set_yaml(sim::JobYaml({.name = "a", .output_dir = "/out/fourth"}));
  unlucky.set_idempotency_key("four");
  const absl::Status refused = Call(Submit, unlucky).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInternal) << refused;
  EXPECT_NE(refused.message().find("a-00"), absl::string_view::npos) << refused;
  EXPECT_EQ(sim_.store().Jobs()->size(), 3u);
  context_.draw_job_hex = api::Context().draw_job_hex;
  EXPECT_EQ(Call(Submit, unlucky)->id().size(), 2u + 16u);
}

// Ids of earlier releases have 6 digits; one may begin another's.
TEST_F(OperationsTest, AnOlderIdIsFoundBesideOneThatBeginsWithIt) {
  std::string hex = "3f2a91";
  context_.draw_job_hex = [&] { return hex; };
  v1::SubmitRequest request = SubmitOf("a");
  request.set_start_paused(true);
  ASSERT_EQ(Call(Submit, request)->id(), "a-3f2a91");
  hex = "3f2a91c07d5be846";
  request.set_yaml(sim::JobYaml({.name = "a", .output_dir = "/out/other"}));
  ASSERT_EQ(Call(Submit, request)->id(), "a-3f2a91c07d5be846");
  EXPECT_EQ(Call(Get, Named<v1::GetRequest>("a-3f2a91"))->id(), "a-3f2a91");
  EXPECT_EQ(Call(Get, Named<v1::GetRequest>("a-3f2a91c"))->id(), "a-3f2a91c07d5be846");
}

TEST_F(OperationsTest, ListIsNewestFirstAndFiltersByLabels) {
  v1::SubmitRequest labelled = SubmitOf("a");
  const std::string metadata = "metadata: {name: a}";
  std::string yaml = labelled.yaml();
  yaml.replace(yaml.find(metadata), metadata.size(), "metadata: {name: a, labels: {team: x}}");
  labelled.set_yaml(yaml);
  ASSERT_TRUE(Call(Submit, labelled).ok());
  ASSERT_TRUE(Call(Submit, SubmitOf("b")).ok());
  v1::ListRequest request;
  EXPECT_EQ(Call(List, request)->jobs(0).name(), "b");
  request.add_labels("team=x");
  ASSERT_EQ(Call(List, request)->jobs_size(), 1);
  request.add_labels("bad");
  EXPECT_EQ(Call(List, request).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(OperationsTest, ListGivesEveryJobOnceOverItsPages) {
  std::vector<std::string> submitted;
  for (int i = 0; i < 5; ++i) {
    v1::SubmitRequest request = SubmitOf("j" + std::to_string(i));
    request.set_start_paused(true);
    submitted.push_back(Call(Submit, request)->id());
  }
  v1::ListRequest request;
  request.set_page_size(2);
  std::vector<std::string> listed;
  int pages = 0;
  do {
    const v1::ListResponse page = *Call(List, request);
    EXPECT_LE(page.jobs_size(), 2);
    for (const v1::Job& job : page.jobs()) {
      EXPECT_EQ(job.yaml() + job.effective_json(), "");
      EXPECT_EQ(job.name(), job.id().substr(0, 2));
      listed.push_back(job.id());
    }
    request.set_page_token(page.next_page_token());
    if (++pages == 1) {  // neither moves another job to another page
      ASSERT_TRUE(Call(Submit, SubmitOf("new")).ok());
      ASSERT_TRUE(Call(Cancel, Named<v1::CancelRequest>("j3")).ok());
      ASSERT_TRUE(Call(Delete, Named<v1::DeleteRequest>("j3")).ok());
    }
  } while (!request.page_token().empty());
  EXPECT_EQ(pages, 3);
  std::reverse(submitted.begin(), submitted.end());
  EXPECT_EQ(listed, submitted);
  EXPECT_FALSE(Call(Get, Named<v1::GetRequest>("j0"))->yaml().empty());
  request.set_page_token("x");
  EXPECT_EQ(Call(List, request).status().code(), absl::StatusCode::kInvalidArgument);
  request.set_page_token("");
  request.set_page_size(-1);
  EXPECT_EQ(Call(List, request).status().code(), absl::StatusCode::kInvalidArgument);
  request.set_page_size(6);
  EXPECT_EQ(Call(List, request)->next_page_token(), "");
}

}  // namespace
}  // namespace coxswain::api
