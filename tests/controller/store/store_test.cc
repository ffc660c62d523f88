// Both stores keep one contract: the invariants of controller/store/README.md.
#include "controller/store/store.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <stop_token>
#include <thread>

#include "absl/strings/str_cat.h"
#include "controller/store/deleted_rows.h"
#include "controller/store/schema.h"
#include "controller/store/sqlite.h"
#include "controller/store/sqlite_store.h"
#include "tests/sim/fakes/memory_store.h"
#include "tests/support/scratch_folder.h"

namespace coxswain::store {
namespace {

JobRow Row(const std::string& id, int64_t order) {
  JobRow row;
  row.job.set_id(id);
  row.job.set_yaml("kind: FineTuneJob");
  row.base_dir = "/jobs";
  row.order = order;
  row.stop_at_step = 7;
  return row;
}

v1::JobEvent EventOf(const std::string& job, const std::string& type) {
  v1::JobEvent event;
  event.set_job(job);
  event.set_type(type);
  return event;
}

StepRow StepOf(const std::string& job, int64_t step, uint64_t epoch, uint64_t bits) {
  return {.job = job, .step = step, .epoch = epoch, .loss_bits = bits, .gnorm_bits = ~bits};
}

class StoreTest : public testing::TestWithParam<bool> {
 protected:
  StoreTest() {
    if (GetParam()) {
      store_ = *SqliteStore::Open(directory_.path());
    } else {
      store_ = std::make_unique<MemoryStore>();
    }
  }
  support::ScratchFolder directory_;
  std::unique_ptr<Store> store_;
};

TEST_P(StoreTest, GivesBackWhatWasCommitted) {
  Batch batch;
  batch.new_jobs = {Row("b", 2), Row("a", 1)};
  batch.epochs = {{.job = "a",
                   .epoch = 1,
                   .term = 3,
                   .plan_hash = std::string("\0h", 2),
                   .fingerprint = "f",
                   .world_size = 2,
                   .start_step = 5,
                   .gemm_table = "{}"}};
  batch.plans = {{std::string("\0h", 2), std::string("pl\0an", 5)}};
  batch.checkpoints = {{.job = "a", .step = 5, .directory = "/out/checkpoint-5", .bytes = 9}};
  batch.keys = {{"key", "hash", "a"}};
  batch.links = {{"two", 4096, 2.5e9}, {"two", 1024, 1.0 / 3}, {"four", 1024, 7}};
  ASSERT_TRUE(store_->Commit(batch).ok());

  const auto jobs = *store_->Jobs();
  ASSERT_EQ(jobs.size(), 2u);
  EXPECT_EQ(jobs[0].job.id(), "a");
  EXPECT_EQ(jobs[0].base_dir, "/jobs");
  EXPECT_EQ(jobs[0].stop_at_step, 7);
  EXPECT_EQ(store_->Epochs("a")->at(0).plan_hash, std::string("\0h", 2));
  EXPECT_EQ(store_->Epochs("a")->at(0).start_step, 5);
  EXPECT_EQ(store_->Epochs("a")->at(0).gemm_table, "{}");
  EXPECT_EQ(*store_->PlanBytes(std::string("\0h", 2)), std::string("pl\0an", 5));
  EXPECT_EQ(store_->PlanBytes("other").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(store_->Checkpoints("a")->at(0).directory, "/out/checkpoint-5");
  EXPECT_EQ((*store_->FindKey("key"))->job, "a");
  EXPECT_FALSE(store_->FindKey("none")->has_value());
  const auto links = *store_->Links();
  ASSERT_EQ(links.size(), 3u);
  EXPECT_EQ(links[0].gang, "four");
  EXPECT_EQ(links[1].bytes, 1024);
  EXPECT_EQ(links[1].bytes_per_second, 1.0 / 3);
  EXPECT_EQ(links[2].bytes, 4096);
  EXPECT_TRUE(store_->CheckWritable().ok());
}

// An evaluation of a model that broke.
TEST_P(StoreTest, KeepsALossThatIsNoNumber) {
  Batch batch;
  batch.new_jobs = {Row("a", 1)};
  CheckpointRow checkpoint{.job = "a", .step = 5, .directory = "/out/checkpoint-5"};
  checkpoint.eval_loss = std::numeric_limits<double>::quiet_NaN();
  checkpoint.has_eval = true;
  batch.checkpoints = {checkpoint};
  batch.links = {{"two", 4096, 2.5e9}};
  ASSERT_TRUE(store_->Commit(batch).ok());
  EXPECT_TRUE(std::isnan(store_->Checkpoints("a")->at(0).eval_loss));
  EXPECT_EQ(store_->Links()->at(0).bytes_per_second, 2.5e9);
}

TEST_P(StoreTest, ACordonIsReplacedByItsTargetAndGoesWhenItIsLifted) {
  Batch batch;
  batch.cordons = {
      {.target = "host-b", .reason = "failures", .since_unix_ms = 7, .automatic = true},
      {.target = "host-a/0", .reason = "by a user", .since_unix_ms = 5}};
  ASSERT_TRUE(store_->Commit(batch).ok());
  batch.cordons = {{.target = "host-a/0", .reason = "by a user: disk", .since_unix_ms = 6}};
  ASSERT_TRUE(store_->Commit(batch).ok());
  const auto cordons = *store_->Cordons();
  ASSERT_EQ(cordons.size(), 2u);
  EXPECT_EQ(cordons[0].target, "host-a/0");
  EXPECT_EQ(cordons[0].reason, "by a user: disk");
  EXPECT_EQ(cordons[0].since_unix_ms, 6);
  EXPECT_FALSE(cordons[0].automatic);
  EXPECT_TRUE(cordons[1].automatic);
  batch.cordons = {{.target = "host-a/0", .lifted = true}, {.target = "none", .lifted = true}};
  ASSERT_TRUE(store_->Commit(batch).ok());
  ASSERT_EQ(store_->Cordons()->size(), 1u);
  EXPECT_EQ(store_->Cordons()->at(0).target, "host-b");
}

TEST_P(StoreTest, ATokenIsReplacedByItsIdWhenItIsRevoked) {
  Batch batch;
  batch.tokens = {
      {.id = "b",
       .user = "ann",
       .role = "user",
       .hash = "h1",
       .created_unix_ms = 2,
       .expires_unix_ms = 9},
      {.id = "a", .user = "ops", .role = "operator", .hash = "h2", .created_unix_ms = 1}};
  ASSERT_TRUE(store_->Commit(batch).ok());
  batch.tokens = {batch.tokens[0]};
  batch.tokens[0].revoked_unix_ms = 5;
  ASSERT_TRUE(store_->Commit(batch).ok());
  const auto tokens = *store_->Tokens();
  ASSERT_EQ(tokens.size(), 2u);
  EXPECT_EQ(tokens[0].id, "a");
  EXPECT_EQ(tokens[0].role, "operator");
  EXPECT_EQ(tokens[0].revoked_unix_ms, 0);
  EXPECT_EQ(tokens[1].user, "ann");
  EXPECT_EQ(tokens[1].hash, "h1");
  EXPECT_EQ(tokens[1].expires_unix_ms, 9);
  EXPECT_EQ(tokens[1].revoked_unix_ms, 5);
}

// Invariant store-3.
TEST_P(StoreTest, EventIdsRiseByOneAcrossJobsAndReadFromACursor) {
  for (int i = 0; i < 3; ++i) {
    Batch batch;
    batch.events = {EventOf("a", "A"), EventOf("b", "B")};
    ASSERT_TRUE(store_->Commit(batch).ok());
  }
  const auto all = *store_->Events("a", 0, 100);
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].id(), 1);
  EXPECT_EQ(all[1].id(), 3);
  EXPECT_EQ(all[2].id(), 5);
  const auto page = *store_->Events("a", 1, 1);
  ASSERT_EQ(page.size(), 1u);
  EXPECT_EQ(page[0].id(), 3);
}

// Invariant store-5.
TEST_P(StoreTest, AReplayedStepSupersedesOnlyItsOwnOlderRow) {
  Batch first;
  first.steps = {StepOf("a", 0, 1, 10), StepOf("a", 1, 1, 11), StepOf("a", 2, 1, 12),
                 StepOf("b", 1, 1, 99)};
  ASSERT_TRUE(store_->Commit(first).ok());
  Batch replay;
  replay.steps = {StepOf("a", 1, 2, 21)};
  ASSERT_TRUE(store_->Commit(replay).ok());
  const auto steps = *store_->history()->Steps("a", 0);
  ASSERT_EQ(steps.size(), 3u);
  EXPECT_EQ(steps[0].loss_bits, 10u);
  EXPECT_EQ(steps[1].loss_bits, 21u);
  EXPECT_EQ(steps[1].gnorm_bits, ~uint64_t{21});
  EXPECT_EQ(steps[2].loss_bits, 12u);
  EXPECT_EQ(store_->history()->Steps("a", 2)->size(), 1u);
  EXPECT_EQ(store_->history()->Steps("b", 0)->size(), 1u);
}

TEST_P(StoreTest, TheNewestEventsOfAJobComeInOrderAndNoMoreThanAsked) {
  Batch batch;
  for (const char* type : {"1", "2", "3", "4"}) {
    batch.events.push_back(EventOf("a", type));
    batch.events.push_back(EventOf("b", type));
  }
  ASSERT_TRUE(store_->Commit(batch).ok());
  const auto two = *store_->history()->NewestEvents("a", 2);
  ASSERT_EQ(two.size(), 2u);
  EXPECT_EQ(two[0].type() + two[1].type(), "34");
  EXPECT_EQ(two[1].id(), 7);
  EXPECT_EQ(store_->history()->NewestEvents("a", 100)->size(), 4u);
  EXPECT_TRUE(store_->history()->NewestEvents("none", 100)->empty());
}

TEST_P(StoreTest, EventsAfterOneComeInOrderAndNoMoreThanAsked) {
  Batch batch;
  for (const char* type : {"1", "2", "3", "4"}) {
    batch.events.push_back(EventOf("a", type));
    batch.events.push_back(EventOf("b", type));
  }
  ASSERT_TRUE(store_->Commit(batch).ok());
  const auto two = *store_->history()->EventsAfter("a", 1, 2);
  ASSERT_EQ(two.size(), 2u);
  EXPECT_EQ(two[0].type() + two[1].type(), "23");
  EXPECT_EQ(two[1].id(), 5);
  EXPECT_EQ(store_->history()->EventsAfter("a", 5, 100)->size(), 1u);
  EXPECT_TRUE(store_->history()->EventsAfter("a", 7, 100)->empty());
}

TEST_P(StoreTest, DeletingAJobRemovesEveryRowOfIt) {
  Batch batch;
  batch.new_jobs = {Row("a", 1), Row("b", 2)};
  batch.steps = {StepOf("a", 0, 1, 1)};
  batch.events = {EventOf("a", "A"), EventOf("b", "B")};
  batch.keys = {{"key", "hash", "a"}};
  ASSERT_TRUE(store_->Commit(batch).ok());
  Batch remove;
  remove.deleted_jobs = {"a"};
  ASSERT_TRUE(store_->Commit(remove).ok());
  EXPECT_EQ(store_->Jobs()->size(), 1u);
  EXPECT_TRUE(store_->history()->Steps("a", 0)->empty());
  EXPECT_TRUE(store_->Events("a", 0, 9)->empty());
  EXPECT_FALSE(store_->FindKey("key")->has_value());
}

// One position a job, and the evaluations of its newest gang.
TEST_P(StoreTest, KeepsWhereAGangStands) {
  Batch batch;
  batch.new_jobs = {Row("a", 1)};
  batch.epochs = {{.job = "a", .epoch = 1, .plan_hash = "h", .ranks = "[]"}};
  batch.evals = {{"a", 1, 4, "four"}, {"a", 1, 0, "none"}};
  batch.positions = {{"a", 1, 7, "{}"}};
  ASSERT_TRUE(store_->Commit(batch).ok());
  EXPECT_EQ(store_->Epochs("a")->at(0).ranks, "[]");
  EXPECT_EQ((*store_->Position("a"))->seq, 7u);
  EXPECT_EQ((*store_->Position("a"))->state, "{}");
  EXPECT_FALSE(store_->Position("b")->has_value());
  const auto evals = *store_->Evals("a", 1);
  ASSERT_EQ(evals.size(), 2u);
  EXPECT_EQ(evals[0].point, "none");
  EXPECT_EQ(evals[1].step, 4);
  batch = {};
  batch.epochs = {{.job = "a", .epoch = 2, .plan_hash = "h"}};
  batch.evals = {{"a", 2, 4, "four"}};
  batch.positions = {{"a", 2, 0, ""}};
  ASSERT_TRUE(store_->Commit(batch).ok());
  EXPECT_TRUE(store_->Evals("a", 1)->empty());
  EXPECT_EQ(store_->Evals("a", 2)->size(), 1u);
  EXPECT_EQ((*store_->Position("a"))->epoch, 2u);
  batch = {};
  batch.deleted_jobs = {"a"};
  ASSERT_TRUE(store_->Commit(batch).ok());
  EXPECT_FALSE(store_->Position("a")->has_value());
  EXPECT_TRUE(store_->Evals("a", 2)->empty());
}

INSTANTIATE_TEST_SUITE_P(Stores, StoreTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "Sqlite" : "Memory"; });

// Invariant store-4.
TEST(SqliteStoreTest, TheTermRisesAtEveryStart) {
  support::ScratchFolder directory;
  for (uint64_t term = 1; term <= 3; ++term) {
    auto store = SqliteStore::Open(directory.path());
    ASSERT_TRUE(store.ok()) << store.status();
    EXPECT_EQ(*(*store)->NextTerm(0), term);
  }
}

// Invariant store-4.
TEST_P(StoreTest, TheTermGoesAboveOneThatWasSeen) {
  EXPECT_EQ(*store_->NextTerm(0), 1u);
  EXPECT_EQ(*store_->NextTerm(7), 8u);
  EXPECT_EQ(*store_->NextTerm(8), 9u);
  EXPECT_EQ(*store_->NextTerm(3), 10u);
  EXPECT_EQ(*store_->NextTerm(0), 11u);
}

// Invariant store-7.
TEST_P(StoreTest, ANewJobNeverTakesTheIdOfAnother) {
  Batch batch;
  batch.new_jobs = {Row("a", 1)};
  ASSERT_TRUE(store_->Commit(batch).ok());
  JobRow other = Row("a", 2);
  other.job.set_name("other");
  batch = {};
  batch.new_jobs = {Row("b", 3), other};
  batch.events = {EventOf("a", "Submitted")};
  const absl::Status taken = store_->Commit(batch);
  EXPECT_EQ(taken.code(), absl::StatusCode::kAlreadyExists) << taken;
  EXPECT_NE(taken.message().find("a job a already"), absl::string_view::npos) << taken;
  ASSERT_EQ(store_->Jobs()->size(), 1u);  // nothing of the batch
  EXPECT_EQ(store_->Jobs()->at(0).order, 1);
  EXPECT_EQ(store_->Jobs()->at(0).job.name(), Row("a", 1).job.name());
  EXPECT_TRUE(store_->Events("a", 0, 9)->empty());
}

TEST_P(StoreTest, AChangeOfAJobThatIsNotThereMakesNone) {
  Batch batch;
  batch.jobs = {Row("a", 1)};
  ASSERT_TRUE(store_->Commit(batch).ok());
  EXPECT_TRUE(store_->Jobs()->empty());
}

// As deploy/README.md has a backup made, while the store is in use.
TEST(SqliteStoreTest, ABackupKeepsTheIdAndTheTermOfItsTime) {
  support::ScratchFolder folder, restored;
  auto store = *SqliteStore::Open(folder.path());
  ASSERT_EQ(*store->NextTerm(0), 1u);
  auto beside = *Database::Open(folder.path() + "/coxswain.db");
  const std::string copy = "VACUUM INTO '" + restored.path() + "/coxswain.db'";
  ASSERT_TRUE(beside->Execute(copy.c_str()).ok());
  ASSERT_EQ(*store->NextTerm(40), 41u);
  auto again = *SqliteStore::Open(restored.path());
  EXPECT_EQ(again->Id(), store->Id());
  EXPECT_EQ(*again->NextTerm(0), 2u);
}

TEST(SqliteStoreTest, AStoreOfAReleaseWithoutIdsGetsOneThatStays) {
  support::ScratchFolder folder;
  ASSERT_TRUE(SqliteStore::Open(folder.path()).ok());
  ASSERT_TRUE((*Database::Open(folder.path() + "/coxswain.db"))
                  ->Execute("DELETE FROM meta WHERE key='id'")
                  .ok());
  const std::string id = (*SqliteStore::Open(folder.path()))->Id();
  EXPECT_EQ(id.size(), 16u);
  EXPECT_EQ((*SqliteStore::Open(folder.path()))->Id(), id);
}

TEST(SqliteStoreTest, ItsIdIsDrawnOnce) {
  support::ScratchFolder one, other;
  const std::string id = (*SqliteStore::Open(one.path()))->Id();
  EXPECT_EQ(id.size(), 16u);
  EXPECT_EQ((*SqliteStore::Open(one.path()))->Id(), id);
  EXPECT_NE((*SqliteStore::Open(other.path()))->Id(), id);
}

// Also a store that an earlier version left readable for all.
TEST(SqliteStoreTest, ItsFilesAreItsUsersAlone) {
  support::ScratchFolder above;
  const std::string directory = above.path() + "/state", path = directory + "/coxswain.db";
  for (int start = 0; start < 2; ++start) {
    ASSERT_TRUE(SqliteStore::Open(directory).ok());
    struct stat found {};
    ASSERT_EQ(stat(directory.c_str(), &found), 0);
    EXPECT_EQ(found.st_mode & 07777, 0700u);
    ASSERT_EQ(stat(path.c_str(), &found), 0);
    EXPECT_EQ(found.st_mode & 07777, 0600u);
    ASSERT_EQ(chmod(path.c_str(), 0644), 0);
  }
}

TEST_P(StoreTest, CountsPreparationsThatDidNotEnd) {
  EXPECT_EQ(store_->UnendedPreparations("a").value(), 0);
  ASSERT_TRUE(store_->SetUnendedPreparations("a", 1).ok());
  ASSERT_TRUE(store_->SetUnendedPreparations("a", 2).ok());
  ASSERT_TRUE(store_->SetUnendedPreparations("b", 1).ok());
  EXPECT_EQ(store_->UnendedPreparations("a").value(), 2);
  ASSERT_TRUE(store_->SetUnendedPreparations("a", 0).ok());
  EXPECT_EQ(store_->UnendedPreparations("a").value(), 0);
  Batch batch;
  batch.deleted_jobs = {"b"};
  ASSERT_TRUE(store_->Commit(batch).ok());
  EXPECT_EQ(store_->UnendedPreparations("b").value(), 0);
}

TEST(SqliteStoreTest, ASecondControllerIsRefusedAndTheHolderNamed) {
  support::ScratchFolder directory;
  auto first = *SqliteStore::Open(directory.path());
  const auto second = SqliteStore::Open(directory.path());
  EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(second.status().message().find(std::to_string(getpid())), absl::string_view::npos);
}

TEST(SqliteStoreTest, ANewerSchemaIsRefusedWithBothNumbers) {
  support::ScratchFolder directory;
  { auto store = *SqliteStore::Open(directory.path()); }
  {
    auto db = *Database::Open(directory.path() + "/coxswain.db");
    ASSERT_TRUE(db->Execute("UPDATE meta SET value=99 WHERE key='schema'").ok());
  }
  const auto again = SqliteStore::Open(directory.path());
  EXPECT_EQ(again.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(again.status().message().find("99"), absl::string_view::npos);
}

// Schema 1 had no links, 2 no GEMM tables, 3 neither cordons nor positions of gangs, 4 no drains
// that another controller goes on with, 5 did not count preparations, 6 knew no tokens.
TEST(SqliteStoreTest, AnOlderSchemaIsBroughtUpToDate) {
  support::ScratchFolder directory;
  Batch batch;
  batch.new_jobs = {Row("a", 1)};
  batch.epochs = {{.job = "a", .epoch = 1, .plan_hash = "h", .fingerprint = "f"}};
  ASSERT_TRUE((*SqliteStore::Open(directory.path()))->Commit(batch).ok());
  {
    auto db = *Database::Open(directory.path() + "/coxswain.db");
    ASSERT_TRUE(db->Execute("DROP TABLE links; DROP TABLE cordons; DROP TABLE evals; "
                            "DROP TABLE positions; ALTER TABLE epochs DROP COLUMN gemm_table; "
                            "ALTER TABLE epochs DROP COLUMN ranks; "
                            "ALTER TABLE jobs DROP COLUMN drain_step; "
                            "ALTER TABLE jobs DROP COLUMN yields_to; DROP TABLE preparations; "
                            "DROP TABLE tokens; "
                            "UPDATE meta SET value=1 WHERE key='schema'")
                    .ok());
  }
  auto store = *SqliteStore::Open(directory.path());
  ASSERT_EQ(store->Jobs()->size(), 1u);
  EXPECT_EQ(store->Jobs()->at(0).drain_step, JobRow::kNoDrainStep);
  EXPECT_EQ(store->Jobs()->at(0).yields_to, "");
  EXPECT_EQ(store->Epochs("a")->at(0).gemm_table, "");
  EXPECT_TRUE(store->Links()->empty());
  EXPECT_TRUE(store->Cordons()->empty());
  EXPECT_EQ(store->UnendedPreparations("a").value(), 0);
  EXPECT_TRUE(store->Tokens()->empty());
  EXPECT_EQ(store->Jobs()->at(0).job.owner(), "") << "older jobs are operators'";
  batch = {};
  batch.links = {{"two", 1024, 7}};
  batch.epochs = {{.job = "a", .epoch = 2, .plan_hash = "h", .gemm_table = "{}"}};
  EXPECT_TRUE(store->Commit(batch).ok());
  EXPECT_EQ(store->Links()->size(), 1u);
  EXPECT_EQ(store->Epochs("a")->at(1).gemm_table, "{}");
}

TEST(SqliteStoreTest, AFileThatIsNoDatabaseIsRefused) {
  support::ScratchFolder directory;
  {
    std::FILE* file = std::fopen((directory.path() + "/coxswain.db").c_str(), "w");
    for (int i = 0; i < 4096; ++i) std::fputs("not a database ", file);
    std::fclose(file);
  }
  EXPECT_EQ(SqliteStore::Open(directory.path()).status().code(), absl::StatusCode::kDataLoss);
}

// A lane reads a long history again and again; commits neither wait for it nor are seen in part.
TEST(SqliteStoreTest, HistoryIsReadBesideCommits) {
  support::ScratchFolder directory;
  auto store = *SqliteStore::Open(directory.path());
  constexpr int64_t kRows = 2000;
  Batch first;
  for (int64_t step = 0; step < kRows; ++step) first.steps.push_back(StepOf("a", step, 1, 1));
  ASSERT_TRUE(store->Commit(first).ok());
  std::atomic<bool> stop = false;
  std::atomic<int64_t> reads = 0;
  std::thread reader([&] {
    size_t seen = 0;
    while (!stop) {
      const auto rows = store->history()->Steps("a", 0);
      ASSERT_TRUE(rows.ok()) << rows.status();
      EXPECT_GE(rows->size(), std::max<size_t>(seen, kRows));
      EXPECT_EQ(rows->size() % 2, 0u) << "half of a batch";
      seen = rows->size();
      ++reads;
    }
  });
  for (int64_t step = kRows; step < kRows + 200 || reads < 3; step += 2) {
    Batch batch;
    batch.steps = {StepOf("a", step, 1, 1), StepOf("a", step + 1, 1, 1)};
    ASSERT_TRUE(store->Commit(batch).ok());
  }
  stop = true;
  reader.join();
}

int64_t RowsOf(const std::string& directory, const char* table, const std::string& job) {
  auto db = *Database::Open(directory + "/coxswain.db");
  auto count = *db->Prepare(absl::StrCat("SELECT count(*) FROM ", table, " WHERE job=?").c_str());
  count->Text(1, job).Step().IgnoreError();
  return count->ColumnInt(0);
}

Batch LongHistory(int64_t rows) {
  Batch batch;
  batch.new_jobs = {Row("long", 1), Row("short", 2)};
  batch.keys = {{"key", "hash", "long"}};
  for (int64_t step = 0; step < rows; ++step) {
    for (const char* job : {"long", "short"}) {
      batch.events.push_back(EventOf(job, "StepDone"));
      batch.steps.push_back(StepOf(job, step, 1 + step % 2, 7));
    }
  }
  return batch;
}

// Invariant store-8.
TEST(SqliteStoreTest, ALongHistoryGoesInPiecesOverACrash) {
  support::ScratchFolder directory;
  const int64_t rows = 3 * kRowsOfAPiece + 1;
  auto store = *SqliteStore::Open(directory.path());
  ASSERT_TRUE(store->Commit(LongHistory(rows)).ok());
  EXPECT_EQ(*store->SweepDeleted(), false);
  Batch deletion;
  deletion.deleted_jobs = {"long"};
  ASSERT_TRUE(store->Commit(deletion).ok());
  ASSERT_EQ(store->Jobs()->size(), 1u);
  EXPECT_EQ(store->FindKey("key")->has_value(), false);
  EXPECT_EQ(RowsOf(directory.path(), "events", "long"), rows - kRowsOfAPiece);
  EXPECT_EQ(RowsOf(directory.path(), "steps", "long"), rows - kRowsOfAPiece);
  EXPECT_TRUE(*store->SweepDeleted());
  store.reset();
  store = *SqliteStore::Open(directory.path());
  int pieces = 0;
  while (*store->SweepDeleted()) ++pieces;
  EXPECT_EQ(pieces, 2);
  EXPECT_EQ(RowsOf(directory.path(), "events", "long"), 0);
  EXPECT_EQ(RowsOf(directory.path(), "steps", "long"), 0);
  EXPECT_EQ(RowsOf(directory.path(), "deletions", "long"), 0);
  EXPECT_EQ(RowsOf(directory.path(), "events", "short"), rows);
  EXPECT_EQ(RowsOf(directory.path(), "steps", "short"), rows);
}

// Invariant store-9.
TEST(SqliteStoreTest, DamagedPagesAreFound) {
  support::ScratchFolder directory;
  const std::string path = directory.path() + "/coxswain.db";
  ASSERT_TRUE((*SqliteStore::Open(directory.path()))->Commit(LongHistory(2000)).ok());
  EXPECT_EQ(FindDamage(path, {})->size(), 0u);
  std::stop_source stop;
  stop.request_stop();
  EXPECT_TRUE(absl::IsCancelled(FindDamage(path, stop.get_token()).status()));
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(std::filesystem::file_size(path) / 4096 / 2 * 4096));
  file << std::string(4096, '\xff') << std::flush;
  const auto damage = FindDamage(path, {});
  ASSERT_TRUE(damage.ok()) << damage.status();
  ASSERT_FALSE(damage->empty());
  EXPECT_TRUE(SqliteStore::Open(directory.path()).ok());
}

// Invariant store-6: such rows an earlier release wrote when a message held bytes that are no
// UTF-8.
TEST(SqliteStoreTest, AnUnreadableRowIsNamedAndKeptAndTheOthersAreServed) {
  support::ScratchFolder directory;
  Batch batch;
  batch.new_jobs = {Row("a", 1), Row("b", 2), Row("c", 3), Row("d", 4)};
  for (JobRow& row : batch.new_jobs) row.job.set_state(v1::JOB_STATE_PAUSED);
  batch.events = {EventOf("b", "A"), EventOf("b", "B"), EventOf("b", "C")};
  ASSERT_TRUE((*SqliteStore::Open(directory.path()))->Commit(batch).ok());
  {
    auto db = *Database::Open(directory.path() + "/coxswain.db");
    ASSERT_TRUE(db->Execute("UPDATE jobs SET proto=x'0A01FF' WHERE id='a'; "
                            "UPDATE jobs SET proto=(SELECT proto FROM jobs WHERE id='b') "
                            "WHERE id='c'; "
                            "UPDATE jobs SET proto=CAST(x'0A01642063' AS BLOB) WHERE id='d'; "
                            "UPDATE events SET proto=x'2A01FF' WHERE id=2")
                    .ok());
  }
  auto store = *SqliteStore::Open(directory.path());
  const auto jobs = store->Jobs();
  ASSERT_TRUE(jobs.ok()) << jobs.status();
  ASSERT_EQ(jobs->size(), 4u);
  for (const size_t i : {0u, 2u, 3u}) {
    EXPECT_EQ(jobs->at(i).job.id(), std::string(1, static_cast<char>('a' + i)));
    EXPECT_EQ(jobs->at(i).order, static_cast<int64_t>(i) + 1);
    EXPECT_NE(jobs->at(i).unreadable.find(directory.path()), std::string::npos);
  }
  EXPECT_NE(jobs->at(0).unreadable.find("row 'a' of table jobs"), std::string::npos);
  EXPECT_NE(jobs->at(2).unreadable.find("record of job 'b'"), std::string::npos);
  EXPECT_NE(jobs->at(3).unreadable.find("its state 99"), std::string::npos)
      << jobs->at(3).unreadable;
  EXPECT_EQ(jobs->at(1).unreadable, "");
  EXPECT_EQ(jobs->at(1).job.yaml(), "kind: FineTuneJob");
  const auto events = store->Events("b", 0, 9);
  ASSERT_TRUE(events.ok()) << events.status();
  ASSERT_EQ(events->size(), 3u);
  EXPECT_EQ(events->at(1).id(), 2);
  EXPECT_EQ(events->at(1).type(), "Unreadable");
  EXPECT_EQ(events->at(2).type(), "C");
}

// Invariants store-1 and store-2: a process killed at any moment leaves every commit that returned,
// and nothing of one that did not. The child commits event i and then tells the parent i over a
// pipe.
TEST(SqliteStoreTest, AKilledProcessLosesNoCommitThatReturned) {
  support::ScratchFolder directory;
  for (int round = 0; round < 6; ++round) {
    int fds[2];
    ASSERT_EQ(pipe(fds), 0);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      auto store = *SqliteStore::Open(directory.path());
      for (int32_t i = 0;; ++i) {
        Batch batch;
        batch.events = {EventOf("a", "first"), EventOf("a", "second")};
        batch.steps = {StepOf("a", round * 100000 + i, 1, 1)};
        if (!store->Commit(batch).ok() || write(fds[1], &i, sizeof(i)) != sizeof(i)) _exit(1);
      }
    }
    close(fds[1]);
    int32_t acknowledged = -1;
    for (int n = 0; n < 5 + 3 * round; ++n) {
      ASSERT_EQ(read(fds[0], &acknowledged, sizeof(acknowledged)),
                static_cast<ssize_t>(sizeof(acknowledged)));
    }
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    int32_t more = 0;
    while (read(fds[0], &more, sizeof(more)) == sizeof(more)) acknowledged = more;
    close(fds[0]);

    auto store = *SqliteStore::Open(directory.path());
    const auto steps = *store->history()->Steps("a", round * 100000);
    EXPECT_GE(static_cast<int32_t>(steps.size()), acknowledged + 1);
    EXPECT_LE(static_cast<int32_t>(steps.size()), acknowledged + 2);  // one may be unacknowledged
    EXPECT_EQ(store->Events("a", 0, 1 << 20)->size() % 2, 0u) << "half of a batch survived";
  }
}

}  // namespace
}  // namespace coxswain::store
