// Events that a release before `detail` wrote: their JSON, and what is read of them now.
#include "controller/store/event_row.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "common/net/event_json.h"
#include "controller/status_page/history.h"
#include "controller/store/sqlite.h"
#include "controller/store/sqlite_store.h"
#include "tests/support/scratch_folder.h"

namespace coxswain::store {
namespace {

struct Old {
  const char* type;
  const char* data;
};

// As that release wrote them.
constexpr Old kOld[] = {
    {"Submitted", "{}"},
    {"ResourcesChosen", R"({"device":"cuda","workers":2})"},
    {"StateChanged", R"({"epoch":0,"event":"PrepareStarted","from":"QUEUED","to":"PREPARING"})"},
    {"StateChanged",
     R"({"epoch":1,"event":"Admitted","from":"READY","to":"ADMITTED","workers":["a/0","a/1"]})"},
    {"DataPrepared",
     R"({"bad_records":1,"bins":2,"documents":3,"dropped_too_long":4,"eval_documents":5,"eval_targets":6,"longest_document":7,"no_target":8,"packing_efficiency":0.9990234375,"records_read":9,"split":10,"targets":11,"tokens":12,"total_steps":13,"truncated":14})"},
    {"Warning", "{}"},
    {"Warning", R"({"fingerprint":"cpu hosts=0@a"})"},
    {"Warning", R"({"dropped_events":0,"dropped_steps":7})"},
    {"Advice", "{}"},
    {"Resuming", R"({"directory":"/out/checkpoint-3","step":3})"},
    {"GangFormed",
     R"({"epoch":1,"fingerprint":"cpu","links":[],"predicted":{"comm_seconds":0.0,"exposed_seconds":0.0,"links_measured":false,"step_seconds":0.25},"start_step":0,"workers":["a/0"]})"},
    {"GangFormed",
     R"({"epoch":2,"fingerprint":"cpu","links":[{"bytes":1024,"bytes_per_second":500000000.0}],"predicted":{"comm_seconds":1e-06,"exposed_seconds":1e-07,"links_measured":true,"step_seconds":0.25},"start_step":3,"workers":["a/0","a/1"]})"},
    {"StepDone",
     R"({"applied":false,"epoch":2,"grad_norm":null,"learning_rate":1e-05,"loss":2.302585092994046,"pass":0,"ranks":[{"bin_ids":[0,17],"loss_sum":-0.0,"rank":0,"seconds":{"backward":0.2,"comm":0.0,"forward":0.1,"optimizer":0.001,"step":0.35},"targets":100,"tokens":1024},{"bin_ids":[],"loss_sum":1e+22,"rank":1,"seconds":{"backward":0.0,"comm":0.0,"forward":0.0,"optimizer":0.0,"step":0.0},"targets":0,"tokens":0}],"seconds":0.5,"step":3,"tokens":1024,"tokens_per_second":2048.0,"total_steps":12})"},
    {"StepSkipped",
     R"({"ranks":[{"bin_ids":[4],"loss_sum":null,"rank":0,"seconds":{"backward":0.2,"comm":0.0,"forward":0.1,"optimizer":0.001,"step":0.35},"targets":100,"tokens":1024}],"step":3})"},
    {"EvalDone",
     R"({"best":true,"eval_loss":1.5,"eval_perplexity":4.4816890703380645,"eval_token_accuracy":0.25,"step":4})"},
    {"EvalDone", R"({"best":false,"eval_loss":1.5,"eval_perplexity":null,"step":4})"},
    {"EarlyStopped", R"({"best_eval_loss":1.25,"best_step":2,"step":4})"},
    {"CheckpointCommitted",
     R"({"bytes":4294967296,"directory":"/out/checkpoint-3","seconds":0.75,"step":3})"},
    {"CheckpointDeleted", R"({"directory":"/out/checkpoint-\"é\"\n","step":3})"},
    {"CheckpointFailed", R"({"code":"RESOURCE_EXHAUSTED","kind":"storage","step":3})"},
    {"AttemptFailed",
     R"({"code":"UNAVAILABLE","epoch":18446744073709551615,"host":"","kind":"system","phase":"train","rank":-1})"},
    {"ReplayDivergence", R"({"before":1,"epoch":2,"step":3})"},
    {"Straggler",
     R"({"compute_seconds":0.75,"host":"a","peer_median_seconds":0.5,"rank":1,"steps":50,"worker":"a/1"})"},
    {"Exported", R"({"directory":"/out/adapter","merged_directory":"","step":12})"},
    {"ExportFailed", R"({"code":"DATA_LOSS","kind":"storage"})"},
};

v1::JobEvent OldEvent(const Old& old) {
  v1::JobEvent event;
  event.set_job("a");
  event.set_type(old.type);
  event.set_data_json(old.data);
  return event;
}

// What the fields say is what that release said, key by key and digit by digit.
TEST(EventRowTest, AnOldEventIsReadIntoFieldsThatShowTheSameJson) {
  for (const Old& old : kOld) {
    v1::JobEvent event = ReadEvent(7, OldEvent(old).SerializeAsString(), "a", "db");
    EXPECT_EQ(event.id(), 7);
    EXPECT_EQ(EventData(event).dump(), old.data) << old.type;
    event.clear_data_json();
    EXPECT_EQ(EventData(event).dump(), old.data) << old.type;
  }
}

TEST(EventRowTest, EveryDetailIsNamedAsItsType) {
  const auto* detail = v1::JobEvent::descriptor()->FindOneofByName("detail");
  for (int i = 0; i < detail->field_count(); ++i) {
    const std::string& name = detail->field(i)->message_type()->name();
    const auto is_it = [&](const Old& old) { return old.type == name; };
    // That release did not know these.
    constexpr std::array kYounger = {"AnswerWritten", "PromptAnswered",   "RecoveryStage",
                                     "IncidentKept",  "Preempted",        "HostLeftOut",
                                     "GangReadopted", "ReadoptionFailed", "SourceResolved",
                                     "SourceFetched", "Pushed",           "PushFailed"};
    const bool younger = std::count(kYounger.begin(), kYounger.end(), name) > 0;
    EXPECT_NE(std::any_of(std::begin(kOld), std::end(kOld), is_it), younger) << name;
  }
}

TEST(EventRowTest, OldDataOfAnotherShapeIsPassedOver) {
  for (const char* data : {"[", "[1]", "null", R"({"step":"x","ranks":{},"seconds":[1]})",
                           R"({"ranks":[1,{"seconds":2,"bin_ids":["y"]}],"step":1.5})"}) {
    const v1::JobEvent event =
        ReadEvent(1, OldEvent({"StepDone", data}).SerializeAsString(), "a", "db");
    EXPECT_EQ(event.step_done().step(), 0) << data;
  }
  EXPECT_TRUE(EventData(OldEvent({"StepDone", "["})).is_null());
}

class OldStoreTest : public testing::Test {
 protected:
  OldStoreTest() {
    const auto made = SqliteStore::Open(directory_);  // its tables
    EXPECT_TRUE(made.ok()) << made.status();
  }

  void Insert(const std::string& bytes_in_hex) {
    const auto db = Database::Open(directory_ + "/coxswain.db");
    const std::string sql = "INSERT INTO events(job, proto) VALUES('a', x'" + bytes_in_hex + "')";
    ASSERT_TRUE(db.ok() && (*db)->Execute(sql.c_str()).ok());
  }

  const support::ScratchFolder folder_;
  const std::string directory_ = folder_.path();
};

// {job: "a", time_unix_ms: 1767323045678, type: "StepDone", message: "step 1/2",
//  data_json: {"grad_norm":null,"learning_rate":0.001,"loss":4.5,"step":0,"tokens":7},
//  state: RUNNING}
TEST_F(OldStoreTest, ItsEventsAreShownAndReadAsBefore) {
  Insert(
      "12016118AE9EA6E5B733220853746570446F6E652A087374657020312F3232477B22677261645F6E6F726D22"
      "3A6E756C6C2C226C6561726E696E675F72617465223A302E3030312C226C6F7373223A342E352C2273746570"
      "223A302C22746F6B656E73223A377D3806");
  auto store = SqliteStore::Open(directory_);
  ASSERT_TRUE(store.ok()) << store.status();
  const auto events = (*store)->Events("a", 0, 9);
  const auto newest = (*store)->history()->NewestEvents("a", 9);
  ASSERT_TRUE(events.ok() && newest.ok());
  ASSERT_EQ(events->size(), 1u);
  for (const v1::JobEvent& event : {events->at(0), newest->at(0)}) {
    EXPECT_EQ(
        EventJson(event).dump(),
        R"({"id":1,"job":"a","time":"2026-01-02T03:04:05.678Z","type":"StepDone","message":"step 1/2","data":{"grad_norm":null,"learning_rate":0.001,"loss":4.5,"step":0,"tokens":7},"state":"RUNNING"})");
    status_page::History history;
    history.Add(event);
    ASSERT_EQ(history.steps().size(), 1u);
    EXPECT_EQ(history.steps()[0].step, 1);
    EXPECT_EQ(history.steps()[0].loss, 4.5);
    EXPECT_EQ(history.steps()[0].learning_rate, 0.001);
    EXPECT_EQ(history.steps()[0].tokens, 7);
    EXPECT_TRUE(std::isnan(history.steps()[0].grad_norm));
  }
}

}  // namespace
}  // namespace coxswain::store
