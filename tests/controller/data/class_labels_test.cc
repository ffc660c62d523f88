#include "controller/data/class_labels.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace coxswain::data {
namespace {

using GivenLabel = ClassifiedRecord::Label;
using Values = std::vector<float>;

class ClassLabelsTest : public testing::Test {
 protected:
  void Classes(const std::string& problem, int64_t count, std::vector<std::string> names = {}) {
    spec_ = {.num_labels = count, .label_names = std::move(names), .problem = problem};
  }
  absl::StatusOr<Values> Read(std::vector<GivenLabel> labels, bool is_list) const {
    ClassifiedRecord record;
    record.labels = std::move(labels);
    record.is_list = is_list;
    return ClassLabels(spec_).ValuesOf(record);
  }
  Values One(GivenLabel label) const {
    const auto values = Read({std::move(label)}, false);
    EXPECT_TRUE(values.ok()) << values.status();
    return values.value_or(Values{-1});
  }
  Values List(std::vector<GivenLabel> labels) const {
    const auto values = Read(std::move(labels), true);
    EXPECT_TRUE(values.ok()) << values.status();
    return values.value_or(Values{-1});
  }
  std::string FaultOf(std::vector<GivenLabel> labels, bool is_list) const {
    return std::string(Read(std::move(labels), is_list).status().message());
  }
  bool Faults(std::vector<GivenLabel> labels, bool is_list, const std::string& part) const {
    return FaultOf(std::move(labels), is_list).find(part) != std::string::npos;
  }

  config::ClassificationSpec spec_;
};

GivenLabel NameLabel(const char* text) { return std::string(text); }
GivenLabel IndexLabel(int64_t index) { return index; }

TEST_F(ClassLabelsTest, OneClassByIndexNameOrTruth) {
  Classes("single_label", 2, {"no", "yes"});
  EXPECT_EQ(One(IndexLabel(1)), Values{1});
  EXPECT_EQ(One(NameLabel("no")), Values{0});
  EXPECT_EQ(One(NameLabel("1")), Values{1}) << "a text of CSV";
  EXPECT_EQ(One(true), Values{1});
  EXPECT_EQ(One(false), Values{0});
  Classes("single_label", 3);
  EXPECT_EQ(One(IndexLabel(2)), Values{2});
  EXPECT_TRUE(Faults({true}, false, "the label true is no class; wanted: an index of 0 to 2"));
  EXPECT_TRUE(Faults({IndexLabel(-1)}, false, "the label -1 is no class"));
  EXPECT_TRUE(Faults({1.0}, false, "the label 1.0 is no class"));
  EXPECT_TRUE(Faults({IndexLabel(1)}, true, "the label [1] is a list"));
}

TEST_F(ClassLabelsTest, ANameIsReadBeforeAnIndex) {
  Classes("single_label", 3, {"2", "1", "0"});
  EXPECT_EQ(One(NameLabel("2")), Values{0});
  EXPECT_EQ(One(IndexLabel(2)), Values{2});
}

// A list of as many entries as there are classes says of each whether it is one, if all entries may
// say so; any other list names classes.
TEST_F(ClassLabelsTest, ListsAreFlagsOrNames) {
  Classes("multi_label", 3, {"a", "b", "c"});
  EXPECT_EQ(List({IndexLabel(0), IndexLabel(1), IndexLabel(1)}), (Values{0, 1, 1}));
  EXPECT_EQ(List({true, false, true}), (Values{1, 0, 1}));
  EXPECT_EQ(List({1.0, 0.0, 0.0}), (Values{1, 0, 0}));
  EXPECT_EQ(List({true, IndexLabel(0), 1.0}), (Values{1, 0, 1}));
  EXPECT_EQ(List({IndexLabel(0), IndexLabel(1)}), (Values{1, 1, 0}));
  EXPECT_EQ(List({IndexLabel(0), IndexLabel(1), IndexLabel(2)}), (Values{1, 1, 1}))
      << "2 is no flag";
  EXPECT_EQ(List({NameLabel("c"), IndexLabel(0)}), (Values{1, 0, 1}));
  EXPECT_EQ(List({}), (Values{0, 0, 0}));
  Classes("multi_label", 1);
  EXPECT_EQ(List({IndexLabel(0)}), Values{0});
  EXPECT_EQ(List({IndexLabel(1)}), Values{1});
}

TEST_F(ClassLabelsTest, WrongListsAreNamed) {
  Classes("multi_label", 3, {"a", "b", "c"});
  EXPECT_EQ(FaultOf({IndexLabel(1)}, false),
            "the label 1 is no list; wanted: a list, of each class an index of 0 to 2, or one of "
            "the names a, b, c, or 3 entries 0 or 1");
  EXPECT_TRUE(Faults({0.5, 0.0, 1.0}, true, "the label [0.5, 0.0, 1.0] holds 0.5; wanted: 0 or 1"));
  EXPECT_TRUE(Faults({true, false}, true, "has 2 entries; wanted: 3, one for each class"));
  EXPECT_TRUE(Faults({IndexLabel(1), NameLabel("b")}, true, "[1, \"b\"] names b twice"));
  EXPECT_TRUE(Faults({NameLabel("d")}, true, "the label \"d\" is no class"));
  EXPECT_TRUE(Faults({1.0}, true, "the label 1.0 is no class"));
}

TEST_F(ClassLabelsTest, NumbersAreFinite) {
  Classes("regression", 1);
  EXPECT_EQ(One(IndexLabel(-2)), Values{-2});
  EXPECT_EQ(One(0.25), Values{0.25});
  EXPECT_EQ(One(NameLabel("0.5")), Values{0.5}) << "a text of CSV";
  EXPECT_EQ(List({1.5}), Values{1.5});
  for (const GivenLabel& bad : {GivenLabel(1e39), GivenLabel(true), NameLabel("high")}) {
    EXPECT_TRUE(Faults({bad}, false, "is not what problem: regression wants: a finite number"));
  }
  Classes("regression", 2);
  EXPECT_EQ(List({IndexLabel(1), 0.5}), (Values{1, 0.5}));
  EXPECT_TRUE(Faults({1.0}, true,
                     "the label [1.0] is not what problem: regression wants: a list "
                     "of 2 finite numbers"));
  EXPECT_TRUE(Faults({1.0}, false, "a list of 2 finite numbers"));
}

TEST_F(ClassLabelsTest, ValuesAreShownByName) {
  Classes("single_label", 2, {"no", "yes"});
  EXPECT_EQ(ClassLabels(spec_).Text(Values{1}), "yes");
  EXPECT_EQ(ClassLabels(spec_).ClassesOf(Values{1}), std::vector<int64_t>{1});
  Classes("multi_label", 3);
  EXPECT_EQ(ClassLabels(spec_).Text(Values{1, 0, 1}), "0, 2");
  EXPECT_EQ(ClassLabels(spec_).Text(Values{0, 0, 0}), "none");
  EXPECT_EQ(ClassLabels(spec_).ClassesOf(Values{1, 0, 1}), (std::vector<int64_t>{0, 2}));
  Classes("regression", 2);
  EXPECT_EQ(ClassLabels(spec_).Text(Values{0.5, 2}), "0.5, 2");
  EXPECT_TRUE(ClassLabels(spec_).ClassesOf(Values{1, 1}).empty());
}

TEST_F(ClassLabelsTest, ManyNamesAreCutInMessages) {
  std::vector<std::string> names;
  for (int i = 0; i < 12; ++i) names.push_back("n" + std::to_string(i));
  Classes("single_label", 12, names);
  EXPECT_TRUE(Faults({NameLabel("x")}, false, "n8, n9, ..."));
  EXPECT_TRUE(Faults(std::vector<GivenLabel>(20, IndexLabel(0)), true, "0, 0, ...] is a list"));
  const std::vector<int64_t> records(12, 0);
  const std::string missing = MissingClasses(ClassLabels(spec_), records);
  EXPECT_EQ(missing, "no record of 12 of 12 classes: n0, n1, n2, n3, n4, n5, n6, n7, n8, n9, ...");
  EXPECT_EQ(MissingClasses(ClassLabels(spec_), std::vector<int64_t>(12, 1)), "");
}

}  // namespace
}  // namespace coxswain::data
