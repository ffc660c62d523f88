// How the bins of a step travel: above 64 KiB a rank that maps the token stores gets document ids.
#include <gtest/gtest.h>
#include <prometheus/registry.h>

#include <memory>
#include <vector>

#include "controller/driver/training/training.h"
#include "controller/gang/gang_session.h"
#include "tests/sim/fakes/fake_workers.h"
#include "tests/sim/fakes/synthetic_curriculum.h"

namespace coxswain::driver {
namespace {

// One bin a rank, of as many tokens as the test says; says in which form it was asked for.
class SizedCurriculum : public sim::SyntheticCurriculum {
 public:
  SizedCurriculum(int64_t ranks, int64_t tokens)
      : SyntheticCurriculum({.steps = 1, .bins_per_step = ranks, .eval_bins = 0}),
        tokens_(tokens) {}
  std::vector<BinSize> step_bins(int64_t step) const override {
    std::vector<BinSize> bins = SyntheticCurriculum::step_bins(step);
    for (BinSize& bin : bins) bin.tokens = tokens_;
    return bins;
  }
  void FillTrain(int64_t, std::span<const int64_t> ids, BinForm form,
                 v1::Bins* out) const override {
    for (const int64_t id : ids) out->add_bin_ids(id);
    if (form == BinForm::kDocumentIds) out->add_document_ids(1);
  }

 private:
  const int64_t tokens_;
};

// Keeps what is written to each rank, merged as a worker sees it.
class Recorder : public sim::FakeWorkers {
 public:
  using FakeWorkers::FakeWorkers;
  std::unique_ptr<CommandStream> Run(const WorkerTarget&, Incoming<v1::Event>) override {
    written.emplace_back();
    return std::make_unique<Stream>(&written, written.size() - 1);
  }
  std::vector<v1::Command> written;  // by rank: the last command

 private:
  struct Stream : CommandStream {
    Stream(std::vector<v1::Command>* written, size_t rank) : written(written), rank(rank) {}
    void Write(const SharedCommand& shared, const v1::Command& own) override {
      // As on the wire: one message's bytes after the other's.
      ASSERT_TRUE((*written)[rank].ParseFromString(shared.bytes + own.SerializeAsString()));
    }
    void Flush() override {}
    void Listen() override {}
    void WritesDone() override {}
    std::vector<v1::Command>* const written;
    const size_t rank;
  };
};

class CommandFormTest : public testing::Test {
 protected:
  // Two ranks, of which the second maps the stores, get a first step of `tokens` tokens each.
  std::vector<v1::Command> Send(int64_t tokens) {
    Loop loop(&clock_, Loop::Offloading::kInline);
    FanOut fan_out(0);
    sim::Agenda agenda(&clock_);
    Recorder workers(&agenda, &files_, 1);
    Metrics metrics(std::make_shared<prometheus::Registry>());
    gang::Gang gang;
    gang.job = "job";
    gang.term = 3;
    gang.epoch = 4;
    gang.plan_hash = std::string(32, 'p');
    gang.ranks.resize(2);
    gang.ranks[0].target.incarnation = "first";
    gang.ranks[1].target.incarnation = "second";
    gang.ranks[1].maps_tokens = true;
    gang::Deps deps;
    deps.loop = &loop;
    deps.transport = &workers;
    deps.fan_out = &fan_out;
    deps.metrics = &metrics;
    deps.settings.credits = 1;
    TrainingArgs args;
    args.curriculum = std::make_shared<SizedCurriculum>(2, tokens);
    args.rules.total_steps = 1;
    gang::GangSession session(deps, gang, {});
    session.Run(std::make_shared<Training>(&session.gang(), std::move(args), TrainingEvents()));
    for (int rank = 0; rank < 2; ++rank) {
      EXPECT_EQ(workers.written[rank].fence().SerializeAsString(),
                gang.FenceOf(rank).SerializeAsString());
    }
    return workers.written;
  }

  sim::VirtualClock clock_;
  sim::MemoryFiles files_;
};

TEST_F(CommandFormTest, RanksShareTheHeadAndHaveTheirOwnBins) {
  const auto commands = Send(100);
  for (const v1::Command& command : commands) {
    EXPECT_EQ(command.seq(), 1u);
    EXPECT_EQ(command.train().learning_rate(), 1e-3);
    EXPECT_EQ(command.train().bins().bin_ids_size(), 1);
  }
  EXPECT_NE(commands[0].train().bins().bin_ids(0), commands[1].train().bins().bin_ids(0));
}

TEST_F(CommandFormTest, DocumentIdsGoToThoseThatMapTheStoreAbove64KiB) {
  const int64_t most = 65536 * 8 / 33;  // 4 bytes and a bit each
  EXPECT_EQ(Send(most)[1].train().bins().document_ids_size(), 0);
  EXPECT_EQ(Send(most + 8)[1].train().bins().document_ids_size(), 1);
  EXPECT_EQ(Send(most + 8)[0].train().bins().document_ids_size(), 0);
}

}  // namespace
}  // namespace coxswain::driver
